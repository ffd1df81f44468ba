"""Compare the ledgers with the event stream: when each execution worked, and whether it was
allowed.

A process that is paused for longer than its lease notices this when it wakes. Until then, and for a
heartbeat afterwards, its jobs may continue. Nothing that they write is accepted.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from headway.core.ids import Instant, LaneName, RunId
from tests.torture.authority import Authority, Held
from tests.torture.ledger import BEGIN, END, STEP, WAIT, Line
from tests.torture.replay import Findings


class Pause(NamedTuple):
    pid: int
    from_ns: int
    to_ns: int


class Piece(NamedTuple):
    """The work of an execution between two of its lines."""

    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class AtWork:
    lines: Sequence[Line]
    """The lines of the ledgers, ordered by time."""
    pauses: Sequence[Pause]
    heartbeat_ns: int
    epoch_ns: int
    """The wall clock time when the monotonic clock is at zero."""

    def check_claims(self, authority: Authority, findings: Findings) -> None:
        """Check that each line is within a claim of its run, and all but the last within a slot."""
        for line in self.lines:
            held = authority.held.get((line.run_id, line.generation))
            at = Instant((line.at_ns + self.epoch_ns) // 1_000)
            if held is None or at < held.claim.begins_at:
                findings.unclaimed += 1
            elif at > held.claim.ends_at:
                self._check_late(line, held, findings)
            elif line.word != END and not any(slot.holds(at) for slot in held.slots):
                findings.unclaimed += 1

    def count_overtaken(self, authority: Authority) -> int:
        """Count executions in flight when their process was paused that lost their claim."""
        count = 0
        for execution in self._executions():
            first, last = execution[0], execution[-1]
            held = authority.held.get((first.run_id, first.generation))
            for pause in self.pauses:
                was_begun = pause.pid == first.pid and first.at_ns < pause.from_ns
                was_over = last.word == END and last.at_ns < pause.from_ns
                if held is not None and was_begun and not was_over:
                    count += pause.from_ns < self._ended_ns(held) <= pause.to_ns
        return count

    def count_in_flight(self, killed_pids: Collection[int]) -> int:
        """Count the processes that were killed while one of their executions had not ended."""
        last_lines = [execution[-1] for execution in self._executions()]
        return len({line.pid for line in last_lines if line.word != END} & set(killed_pids))

    def _ended_ns(self, held: Held) -> int:
        return held.claim.ends_at * 1_000 - self.epoch_ns

    def _check_late(self, line: Line, held: Held, findings: Findings) -> None:
        woke_ns = [pause.to_ns for pause in self.pauses if pause.pid == line.pid]
        since_ns = max([self._ended_ns(held), *(at_ns for at_ns in woke_ns if at_ns <= line.at_ns)])
        late_ns = line.at_ns - since_ns
        findings.ran_on += late_ns > self.heartbeat_ns
        findings.ran_on_ms_max = max(findings.ran_on_ms_max, late_ns // 1_000_000)

    def check_crowding(self, lane_limits: Mapping[LaneName, int], findings: Findings) -> None:
        """Check by the ledgers alone: one working run per key, and at most the limit per lane."""
        moments: list[tuple[int, int, Hashable, Hashable]] = []
        for execution in self._executions():
            first = execution[0]
            for piece in self._pieces(execution):
                moments.append((piece.from_ns, +1, first.key, first.lane))
                moments.append((piece.to_ns, -1, first.key, first.lane))
        keys: Counter[Hashable] = Counter()
        lanes: Counter[Hashable] = Counter()
        # At the same instant, ends are sorted before begins.
        for _, change, key, lane in sorted(moments, key=lambda moment: moment[:2]):
            keys[key] += change
            lanes[lane] += change
            if change > 0:
                findings.two_at_work += keys[key] > 1
                findings.two_at_work += lanes[lane] > lane_limits[LaneName(str(lane))]

    def _executions(self) -> Iterator[list[Line]]:
        found: defaultdict[tuple[RunId, int, int], list[Line]] = defaultdict(list)
        for line in self.lines:
            found[line.run_id, line.generation, line.pid].append(line)
        yield from found.values()

    def _pieces(self, execution: Sequence[Line]) -> Iterator[Piece]:
        for line, following in pairwise(execution):
            if line.word in (BEGIN, STEP) and following.word in (STEP, WAIT, END):
                yield from self._awake(Piece(line.at_ns, following.at_ns), line.pid)

    def _awake(self, piece: Piece, pid: int) -> Iterator[Piece]:
        """Return the piece without its process's pauses and the heartbeat after each."""
        from_ns = piece.from_ns
        for pause in self.pauses:
            excused_to_ns = pause.to_ns + self.heartbeat_ns
            if pause.pid != pid or excused_to_ns <= from_ns or pause.from_ns >= piece.to_ns:
                continue
            if from_ns < pause.from_ns:
                yield Piece(from_ns, pause.from_ns)
            from_ns = excused_to_ns
        if from_ns < piece.to_ns:
            yield Piece(from_ns, piece.to_ns)
