"""Check that a run's events match its status changes and have no gaps (I12, I13)."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headway.core.doctor.finding import Finding, violation
from headway.core.doctor.rules import describe_run
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TRANSITIONS

PAYLOAD_PREFIX_LENGTH: Final = 64
"""How many characters of a payload are read: enough for both statuses of a status change.

The rest of the payload may be long, so it is not read.
"""
LEGAL_MOVES: Final = frozenset(
    (source, target) for edges in TRANSITIONS.values() for source, target in edges.items()
)
INITIAL_STATUSES: Final = frozenset({RunStatus.QUEUED, RunStatus.REJECTED})
_STATES: Final = re.compile(r'\{"from":(?:null|"(\w+)"),"to":"(\w+)"')


class RunSeqRange(NamedTuple):
    """The first and last `run_seq` of a run's events, and the number of these events."""

    first: int
    last: int
    event_count: int


class StateChange(NamedTuple):
    seq: int
    run_seq: int
    payload_prefix: str

    def states(self) -> tuple[str | None, str] | None:
        return parse_states(self.payload_prefix)


def parse_states(payload_prefix: str) -> tuple[str | None, str] | None:
    """Return the old and the new status of a change, or None if they cannot be parsed."""
    match = _STATES.match(payload_prefix)
    return None if match is None else (match[1], match[2])


def start_seq_of(changes: Sequence[StateChange]) -> int | None:
    """Return the `seq` of the event with which a run started.

    Return None if the run never started, or if the event was pruned.
    """
    for change in changes:
        states = change.states()
        if states is not None and states[1] == RunStatus.RUNNING:
            return change.seq
    return None


def check_history(
    run: Run, seqs: RunSeqRange | None, changes: Sequence[StateChange], *, is_unpruned: bool
) -> Iterator[Finding]:
    """Yield the findings on a run's events.

    `is_unpruned` is True if the first event of the run was not pruned.
    """
    if seqs is not None or is_unpruned:
        yield from _check_run_seqs(run, seqs or RunSeqRange(1, 0, 0), is_unpruned=is_unpruned)
    yield from _check_transitions(run, changes, is_unpruned=is_unpruned)


def _check_run_seqs(run: Run, seqs: RunSeqRange, *, is_unpruned: bool) -> Iterator[Finding]:
    first, last, count = seqs
    if last != run.run_seq or count != last - first + 1 or (is_unpruned and first != 1):
        sentence = (
            f"its events should be numbered to {run.run_seq} without gaps,"
            f" but there are {count}, from {first} to {last}"
        )
        yield violation("I13", describe_run(run), sentence)


def _check_transitions(
    run: Run, changes: Sequence[StateChange], *, is_unpruned: bool
) -> Iterator[Finding]:
    status: str | None = None
    for change in changes:
        subject = f"{describe_run(run)}, event {change.seq}"
        states = change.states()
        if states is None:
            yield violation("I12", subject, "the statuses of its payload cannot be parsed")
            return
        source, target = states
        if source is None:
            is_legal = target in INITIAL_STATUSES and change.seq == run.seq
        else:
            is_known = change is not changes[0] or is_unpruned
            is_legal = (source, target) in LEGAL_MOVES and (source == status or not is_known)
        if not is_legal:
            sentence = f"{source or 'nothing'} to {target} is not an allowed transition there"
            yield violation("I12", subject, sentence)
            return
        status = target
    # If all changes of the run are pruned, there is nothing to compare.
    if status != run.status and (changes or is_unpruned):
        sentence = f"it is {run.status.value}, but its events end at {status or 'nothing'}"
        yield violation("I12", describe_run(run), sentence)
