"""A run beside its events: one for each change of state, numbered without gaps (I12, I13)."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headway.core.doctor.finding import Finding, violation
from headway.core.doctor.rules import describe_run
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TRANSITIONS

PAYLOAD_PREFIX_LENGTH: Final = 64
"""A change's payload begins with both its states; what follows may be long, and is not read."""
LEGAL_MOVES: Final = frozenset(
    (source, target) for edges in TRANSITIONS.values() for source, target in edges.items()
)
INITIAL_STATUSES: Final = frozenset({RunStatus.QUEUED, RunStatus.REJECTED})
_STATES: Final = re.compile(r'\{"from":(?:null|"(\w+)"),"to":"(\w+)"')


class RunSeqRange(NamedTuple):
    """The `run_seq`s of a run's events."""

    first: int
    last: int
    event_count: int


class StateChange(NamedTuple):
    seq: int
    run_seq: int
    payload_prefix: str

    def states(self) -> tuple[str | None, str] | None:
        return parse_states(self.payload_prefix)


def parse_states(beginning: str) -> tuple[str | None, str] | None:
    """Return the old and the new state of a change, or None if they cannot be read."""
    found = _STATES.match(beginning)
    return None if found is None else (found[1], found[2])


def start_seq_of(changes: Sequence[StateChange]) -> int | None:
    """The `seq` of a run's start; None: it has none, or it was pruned."""
    for change in changes:
        states = change.states()
        if states is not None and states[1] == RunStatus.RUNNING:
            return change.seq
    return None


def check_history(
    run: Run, numbers: RunSeqRange | None, changes: Sequence[StateChange], *, is_unpruned: bool
) -> Iterator[Finding]:
    """`is_whole`: none of its events was pruned, because not even its first one was."""
    if numbers is not None or is_unpruned:
        yield from _check_run_seqs(run, numbers or RunSeqRange(1, 0, 0), is_unpruned=is_unpruned)
    yield from _check_transitions(run, changes, is_unpruned=is_unpruned)


def _check_run_seqs(run: Run, numbers: RunSeqRange, *, is_unpruned: bool) -> Iterator[Finding]:
    first, last, count = numbers
    if last != run.run_seq or count != last - first + 1 or (is_unpruned and first != 1):
        sentence = (
            f"its events should be numbered to {run.run_seq} without gaps,"
            f" but {count} are there, from {first} to {last}"
        )
        yield violation("I13", describe_run(run), sentence)


def _check_transitions(
    run: Run, changes: Sequence[StateChange], *, is_unpruned: bool
) -> Iterator[Finding]:
    status: str | None = None
    for change in changes:
        place = f"{describe_run(run)}, event {change.seq}"
        states = change.states()
        if states is None:
            yield violation("I12", place, "from which state to which it leads cannot be read")
            return
        source, target = states
        if source is None:
            is_legal = target in INITIAL_STATUSES and change.seq == run.seq
        else:
            is_known = change is not changes[0] or is_unpruned
            is_legal = (source, target) in LEGAL_MOVES and (source == status or not is_known)
        if not is_legal:
            yield violation(
                "I12", place, f"{source or 'nothing'} to {target} is no move from there"
            )
            return
        status = target
    # Of a run whose changes are all pruned nothing is known.
    if status != run.status and (changes or is_unpruned):
        sentence = f"it is {run.status.value}, but its events end at {status or 'nothing'}"
        yield violation("I12", describe_run(run), sentence)
