"""Decide which node has the newest state of the cluster.

The row of the table `stream` contains the id of the cluster (`cluster_id`), the number of the last
event (`seq`) and the number of failovers (`epoch`). Each process stores the newest state that it
has seen, and the address of that node, its *primary*. These decide which node may be used:

- A lower epoch than the newest one seen: an old primary that came back. It is refused.
- A higher epoch: another process has detected a failover first. The process follows it.
- The same epoch at another address: a failover that no process has recorded yet. The primary is
  gone, and a replica was promoted. The first process that connects there raises the epoch. So every
  process can recognize the old primary if it comes back. With asynchronous replication the replica
  may lack the last commits. That is accepted, and seq continues from the replica's value.
- A primary that answers stays the primary, unless another node has a higher epoch. A second
  writable node of the same epoch should have been a replica, or came back too early.

A new process has seen no state. It probes every address before it chooses, and takes the highest
epoch, then the highest seq, then the first in the given order. So an old primary that came back
*together with* the new one is not chosen, even if it is first in the list. A new process cannot
recognize an old primary that came back *alone*; running processes can.

If two writable nodes have the same epoch, the epoch of the chosen one is raised, so that every
process makes the same choice.

After two failovers in a row, the primary may lack the epoch that was raised in the first failover:
the node on which it was raised failed before the epoch was replicated. Running processes refuse
such a primary like any old one, because it lacks commits that they have seen. Only an administrator
can decide to give these commits up. `headway db accept-primary` then raises the primary's epoch
above every epoch that any process has seen, and every process follows. The new epoch is the time in
seconds, so a later epoch is always higher, even if the node has no record of earlier epochs.

See docs/internals/connections.md.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from headway.core.errors import ACCEPT_PRIMARY_COMMAND

OLD_PRIMARY: Final = (
    "is behind: it is an old primary that came back, or was promoted without the last commits;"
    f" if it is to be the primary from now on, run: {ACCEPT_PRIMARY_COMMAND}"
)
LOST_COMMITS: Final = (
    "is behind its own earlier commits: it was restored from a backup, or promoted without the last"
    f" commits; if it is to be used from now on, run: {ACCEPT_PRIMARY_COMMAND}"
)
BEHIND_REASONS: Final = frozenset({OLD_PRIMARY, LOST_COMMITS})


@dataclass(frozen=True, slots=True)
class StreamState:
    """The content of a node's `stream` row."""

    cluster_id: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class NewestState:
    """The newest state that this process has seen, and the address of the node with it."""

    stream: StreamState
    primary: str

    @property
    def identity(self) -> tuple[str, int, str]:
        return self.stream.cluster_id, self.stream.epoch, self.primary


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The address of the node to use, and whether the node's epoch must be raised first."""

    address: str
    raises_epoch: bool


def refusal_reason(
    stream: StreamState | None, *, address: str, newest: NewestState | None
) -> str | None:
    """Return why a node must not be used after `newest` was seen, or None if it may be used.

    The caller must read `newest` before `stream`. A lower seq in `stream` then proves that the node
    has lost commits.
    """
    if newest is None:
        return None
    if stream is None or stream.cluster_id != newest.stream.cluster_id:
        return "belongs to another cluster"
    if stream.epoch < newest.stream.epoch:
        return OLD_PRIMARY
    is_primary = stream.epoch == newest.stream.epoch and address == newest.primary
    if is_primary and stream.seq < newest.stream.seq:
        return LOST_COMMITS
    return None


def choose_node(
    usable: Mapping[str, StreamState | None], newest: NewestState | None
) -> NodeChoice | None:
    """Choose one of the `usable` nodes, which are in order of preference.

    Return None if the nodes belong to different clusters, because a new process cannot choose one.
    """
    streams = {address: stream for address, stream in usable.items() if stream is not None}
    if len({stream.cluster_id for stream in streams.values()}) > 1:
        return None
    if not streams:  # No node has tables yet. They will be created at the first address.
        return NodeChoice(next(iter(usable)), raises_epoch=False)
    top_epoch = max(stream.epoch for stream in streams.values())
    top = [address for address, stream in streams.items() if stream.epoch == top_epoch]
    if newest is not None and newest.primary in top:
        chosen = newest.primary
    else:
        chosen = max(top, key=lambda address: streams[address].seq)  # The first of equals.
    has_moved = newest is not None and newest.stream.epoch == top_epoch and newest.primary != chosen
    return NodeChoice(chosen, raises_epoch=has_moved or len(top) > 1)


class StateTracker:
    """The newest state that this process has seen. It can be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # Never held across an await.
        self._newest: NewestState | None = None

    @property
    def newest(self) -> NewestState | None:
        return self._newest

    def adopt(self, stream: StreamState, *, primary: str, expected: NewestState | None) -> bool:
        """Store a node as the primary. Return False if the newest state is not `expected`."""
        adopted = NewestState(stream, primary)
        with self._lock:
            current = self._newest
            if current is not None and current.identity == adopted.identity:
                adopted = _advance(current, stream.seq, stream.epoch)
            elif _identity(current) != _identity(expected):
                return False
            self._newest = adopted
            return True

    def note_commit(self, seq: int, *, epoch: int, address: str) -> None:
        """Record the seq and epoch of a commit. Another process may have raised the epoch."""
        with self._lock:
            if self._newest is not None and self._newest.primary == address:
                self._newest = _advance(self._newest, seq, epoch)


def _advance(newest: NewestState, seq: int, epoch: int) -> NewestState:
    stream = newest.stream
    later = replace(stream, seq=max(seq, stream.seq), epoch=max(epoch, stream.epoch))
    return replace(newest, stream=later)


def _identity(newest: NewestState | None) -> tuple[str, int, str] | None:
    return None if newest is None else newest.identity
