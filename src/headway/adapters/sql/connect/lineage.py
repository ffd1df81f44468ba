"""Which node holds the newest state of our cluster.

The one row of `stream` tells whose state a node holds (`cluster_id`), how new it is (`seq`), and
through how many failovers it came (`epoch`). A process remembers the newest of these that it has
seen, and where: that node is its *home*. From this follows which node may be used:

- A lower epoch than the newest seen is an old primary that came back. It is refused.
- A higher epoch means that somebody else saw the failover first. It is followed.
- The same epoch elsewhere is a failover nobody has marked yet: home has gone, and a replica was
  promoted. Whoever moves there first raises the epoch, so that the old home, should it come back,
  is told apart for ever, by every process. The replica may lack the last commits of an
  asynchronous replication; that is the price of a failover, and the newest seq starts anew there.
- While home answers it stays home, unless another node has a higher epoch: a second writable node
  of the same epoch can only be one that should have been a replica or that came back too early.

A new process remembers nothing. It looks at every address before it chooses, and takes the highest
epoch, then the highest seq, then the given order. So an old primary that came back *beside* the new
one is not chosen, although it may stand first in the list. Against one that came back *alone* a new
process has no defence; those that are already running have.

When two writable nodes have the same epoch, the chosen one gets a new epoch: the question is
decided once, for everybody.

Two failovers in a row can leave a primary without the epoch that the first one raised: the node on
which it was raised failed before the epoch was replicated. Running processes refuse such a primary
like any old one, because it lacks commits that they have seen. Only a person can decide to give
these commits up. `headway db accept-primary` then raises the epoch there above every epoch that any
process has seen, and every process follows. That epoch is the time in seconds, so a later one is
always higher, even if the node has no record of earlier ones.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from headway.core.errors import ACCEPT_PRIMARY_COMMAND

OLD_PRIMARY: Final = (
    "is behind: an old primary that came back, or one that was promoted without the last commits;"
    f" if it is to be the primary from now on, run: {ACCEPT_PRIMARY_COMMAND}"
)
LOST_COMMITS: Final = (
    "is behind what it has committed before: restored from a backup, or promoted without the last"
    f" commits; if it is to be used from now on, run: {ACCEPT_PRIMARY_COMMAND}"
)
BEHIND_REASONS: Final = frozenset({OLD_PRIMARY, LOST_COMMITS})


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a node's `stream` row says."""

    cluster_id: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class NewestState:
    """The newest state this process has seen, and the address where it saw it."""

    stream: StreamState
    primary: str

    @property
    def identity(self) -> tuple[str, int, str]:
        return self.stream.cluster_id, self.stream.epoch, self.primary


@dataclass(frozen=True, slots=True)
class NodeChoice:
    address: str
    raises_epoch: bool


def refusal_reason(
    found: StreamState | None, *, address: str, newest: NewestState | None
) -> str | None:
    """Why a node must not be used after `newest` was seen, or None when it may be.

    `newest` must have been remembered before `found` was read: then a seq that the node reports
    can only be lower when the node really went back.
    """
    if newest is None:
        return None
    if found is None or found.cluster_id != newest.stream.cluster_id:
        return "belongs to another cluster"
    if found.epoch < newest.stream.epoch:
        return OLD_PRIMARY
    is_home = found.epoch == newest.stream.epoch and address == newest.primary
    if is_home and found.seq < newest.stream.seq:
        return LOST_COMMITS
    return None


def choose_node(
    usable: Mapping[str, StreamState | None], newest: NewestState | None
) -> NodeChoice | None:
    """Choose among the nodes that were not refused, in the given order; None when they disagree.

    They disagree when a new process finds two clusters: it cannot know which of them is its own.
    """
    known = {address: found for address, found in usable.items() if found is not None}
    if len({found.cluster_id for found in known.values()}) > 1:
        return None
    if not known:  # The tables are yet to be made: the first address is where.
        return NodeChoice(next(iter(usable)), raises_epoch=False)
    top_epoch = max(found.epoch for found in known.values())
    top = [address for address, found in known.items() if found.epoch == top_epoch]
    if newest is not None and newest.primary in top:
        chosen = newest.primary
    else:
        chosen = max(top, key=lambda address: known[address].seq)  # The first of equals.
    has_moved = newest is not None and newest.stream.epoch == top_epoch and newest.primary != chosen
    return NodeChoice(chosen, raises_epoch=has_moved or len(top) > 1)


class StateTracker:
    """What this process remembers. Shared by threads; the lock is never held across an await."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: NewestState | None = None

    @property
    def newest(self) -> NewestState | None:
        return self._newest

    def adopt(self, stream: StreamState, *, primary: str, expected: NewestState | None) -> bool:
        """Remember a node as home, unless what is remembered is no longer what was judged by."""
        adopted = NewestState(stream, primary)
        with self._lock:
            present = self._newest
            if present is not None and present.identity == adopted.identity:
                adopted = _advance(present, stream.seq, stream.epoch)
            elif _identity(present) != _identity(expected):
                return False
            self._newest = adopted
            return True

    def note_commit(self, seq: int, *, epoch: int, address: str) -> None:
        """Remember what a commit found at home: another process may have raised its epoch."""
        with self._lock:
            if self._newest is not None and self._newest.primary == address:
                self._newest = _advance(self._newest, seq, epoch)


def _advance(newest: NewestState, seq: int, epoch: int) -> NewestState:
    known = newest.stream
    later = replace(known, seq=max(seq, known.seq), epoch=max(epoch, known.epoch))
    return replace(newest, stream=later)


def _identity(newest: NewestState | None) -> tuple[str, int, str] | None:
    return None if newest is None else newest.identity
