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

from headway.core.errors import ACCEPT_PRIMARY

OLD_PRIMARY: Final = (
    "is behind: an old primary that came back, or one that was promoted without the last commits;"
    f" if it is to be the primary from now on, run: {ACCEPT_PRIMARY}"
)
WENT_BACK: Final = (
    "is behind what it has committed before: restored from a backup, or promoted without the last"
    f" commits; if it is to be used from now on, run: {ACCEPT_PRIMARY}"
)
BEHIND: Final = frozenset({OLD_PRIMARY, WENT_BACK})


@dataclass(frozen=True, slots=True)
class Stream:
    """What a node's `stream` row says."""

    cluster_id: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest state this process has seen, and the address where it saw it."""

    stream: Stream
    home: str

    @property
    def lineage(self) -> tuple[str, int, str]:
        return self.stream.cluster_id, self.stream.epoch, self.home


@dataclass(frozen=True, slots=True)
class Choice:
    address: str
    raises_epoch: bool


def refusal(found: Stream | None, *, at: str, newest: Newest | None) -> str | None:
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
    is_home = found.epoch == newest.stream.epoch and at == newest.home
    if is_home and found.seq < newest.stream.seq:
        return WENT_BACK
    return None


def choose(usable: Mapping[str, Stream | None], newest: Newest | None) -> Choice | None:
    """Choose among the nodes that were not refused, in the given order; None when they disagree.

    They disagree when a new process finds two clusters: it cannot know which of them is its own.
    """
    known = {address: found for address, found in usable.items() if found is not None}
    if len({found.cluster_id for found in known.values()}) > 1:
        return None
    if not known:  # The tables are yet to be made: the first address is where.
        return Choice(next(iter(usable)), raises_epoch=False)
    top_epoch = max(found.epoch for found in known.values())
    top = [address for address, found in known.items() if found.epoch == top_epoch]
    if newest is not None and newest.home in top:
        chosen = newest.home
    else:
        chosen = max(top, key=lambda address: known[address].seq)  # The first of equals.
    has_moved = newest is not None and newest.stream.epoch == top_epoch and newest.home != chosen
    return Choice(chosen, raises_epoch=has_moved or len(top) > 1)


class SeenState:
    """What this process remembers. Shared by threads; the lock is never held across an await."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: Newest | None = None

    @property
    def newest(self) -> Newest | None:
        return self._newest

    def adopt(self, stream: Stream, *, home: str, expected: Newest | None) -> bool:
        """Remember a node as home, unless what is remembered is no longer what was judged by."""
        adopted = Newest(stream, home)
        with self._lock:
            present = self._newest
            if present is not None and present.lineage == adopted.lineage:
                adopted = _later(present, stream.seq, stream.epoch)
            elif _lineage(present) != _lineage(expected):
                return False
            self._newest = adopted
            return True

    def saw(self, seq: int, *, epoch: int, at: str) -> None:
        """Remember what a commit found at home: another process may have raised its epoch."""
        with self._lock:
            if self._newest is not None and self._newest.home == at:
                self._newest = _later(self._newest, seq, epoch)


def _later(newest: Newest, seq: int, epoch: int) -> Newest:
    known = newest.stream
    later = replace(known, seq=max(seq, known.seq), epoch=max(epoch, known.epoch))
    return replace(newest, stream=later)


def _lineage(newest: Newest | None) -> tuple[str, int, str] | None:
    return None if newest is None else newest.lineage
