"""Replay the event stream and the ledgers, and count violations."""

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headway.adapters.sql.sql_store import SqlStore
from headway.core.ids import Key, LaneName, RunId
from headway.core.run.events import Event, EventType
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.ports.run_reader import RunFilter

PAGE_COUNT = 5_000
SLOT_GIVEN_BACK = frozenset(
    {EventType.TAKEN_OVER, EventType.WAITING, EventType.PARKED, EventType.RETRIED}
)


@dataclass(slots=True)
class Findings:
    runs: int = 0
    events: int = 0
    accepted: int = 0
    told: int = 0
    """Refused with the id of the active run."""
    lost: int = 0
    """Reported as accepted, but not stored."""
    unfinished: int = 0
    ended_twice: int = 0
    executed_twice: int = 0
    """Started more than once although no process was killed, or settled more than once."""
    two_of_a_key: int = 0
    above_the_limit: int = 0
    out_of_order: int = 0
    gaps: int = 0
    stale_writes: int = 0
    """Writes to a server that is not the primary any more."""
    stale_words: int = 0
    """Results and events that were accepted from a stale claim."""
    unclaimed: int = 0
    """Moments at which a job worked without its claim, or without a slot."""
    two_at_work: int = 0
    """By the ledgers alone: moments with two working runs of a key, or too many of a lane."""
    ran_on: int = 0
    """Moments of work later than a heartbeat after the end of the claim, or after a pause."""
    leaked: int = 0
    """Slots and instances that are left at the end."""
    slots_held_max: int = 0
    pauses_in_a_write: int = 0
    """Pauses during which no other process could write."""
    overtaken: int = 0
    """Executions that lost their claim while their process was paused."""
    poisoned: int = 0
    """Runs that correctly ended as poison: three deaths without a checkpoint."""
    kills_in_flight: int = 0
    """Kills that hit a process while it executed a run."""
    ran_on_ms_max: int = 0
    """The longest that a job worked after the end of its claim, or after a pause."""
    outages: int = 0
    """How often Redis was broken."""
    woke_ms_p99: int = 0
    """From a message, or from the end of an outage during which it was sent, until it was received.
    """
    faults: list[str] = field(default_factory=list)

    @property
    def violations(self) -> int:
        return (
            self.lost
            + self.unfinished
            + self.ended_twice
            + self.executed_twice
            + self.two_of_a_key
            + self.above_the_limit
            + self.out_of_order
            + self.gaps
            + self.stale_writes
            + self.stale_words
            + self.unclaimed
            + self.two_at_work
            + self.ran_on
            + self.leaked
            + len(self.faults)
        )


@dataclass(slots=True)
class _Replay:
    findings: Findings
    lane_limits: Mapping[LaneName, int]
    last_seq: int = 0
    holding: defaultdict[LaneName, set[RunId]] = field(default_factory=lambda: defaultdict(set))
    running: dict[Key, RunId] = field(default_factory=dict)
    accepted_seqs: dict[RunId, int] = field(default_factory=dict)
    last_started: dict[Key, int] = field(default_factory=dict)
    ended: set[RunId] = field(default_factory=set)

    def take(self, event: Event) -> None:
        self.findings.gaps += event.seq != self.last_seq + 1
        self.last_seq = event.seq
        self.findings.events += 1
        if event.run_id is None or event.key is None or event.lane is None:
            return
        match event.type:
            case EventType.STATE_CHANGED:
                self._move(event, event.run_id, event.key, event.lane)
            case EventType.RESUMED:
                self._hold(event.run_id, event.lane)
            case _ if event.type in SLOT_GIVEN_BACK:
                self.holding[event.lane].discard(event.run_id)
            case _:
                return

    def _move(self, event: Event, run_id: RunId, key: Key, lane: LaneName) -> None:
        move = json.loads(event.payload)
        if move["from"] is None:
            self.accepted_seqs[run_id] = event.seq
            self.findings.runs += 1
        if move["to"] == RunStatus.RUNNING:
            other = self.running.get(key)
            self.findings.two_of_a_key += other is not None
            self.running[key] = run_id
            accepted_seq = self.accepted_seqs[run_id]
            self.findings.out_of_order += accepted_seq < self.last_started.get(key, 0)
            self.last_started[key] = accepted_seq
            self._hold(run_id, lane)
        if move["to"] in TERMINAL:
            self.findings.ended_twice += run_id in self.ended
            self.ended.add(run_id)
            self.holding[lane].discard(run_id)
            if self.running.get(key) == run_id:
                del self.running[key]

    def _hold(self, run_id: RunId, lane: LaneName) -> None:
        self.holding[lane].add(run_id)
        held_count = len(self.holding[lane])
        self.findings.above_the_limit += held_count > self.lane_limits[lane]
        self.findings.slots_held_max = max(self.findings.slots_held_max, held_count)


async def stream_of(store: SqlStore) -> AsyncIterator[Event]:
    """Return all events. No process writes any more."""
    after_seq = 0
    while page := (await store.events.events(after_seq=after_seq, limit=PAGE_COUNT)).events:
        for event in page:
            yield event
        after_seq = page[-1].seq


async def replay(
    store: SqlStore, folder: Path, *, lane_limits: Mapping[LaneName, int], anyone_was_killed: bool
) -> Findings:
    findings = Findings()
    state = _Replay(findings, lane_limits)
    async for event in stream_of(store):
        state.take(event)
    last_seq = (await store.events.events(after_seq=state.last_seq, limit=1)).last_seq
    findings.gaps += last_seq != state.last_seq
    findings.unfinished = len(state.accepted_seqs) - len(state.ended)
    is_active = RunFilter(statuses=frozenset(RunStatus) - TERMINAL)
    async for _ in store.runs.list_runs(is_active, limit=PAGE_COUNT):
        findings.unfinished += 1
    _compare_ledgers(findings, state, folder, anyone_was_killed=anyone_was_killed)
    return findings


def _compare_ledgers(
    findings: Findings, state: _Replay, folder: Path, *, anyone_was_killed: bool
) -> None:
    words: dict[str, Counter[RunId]] = defaultdict(Counter)
    for ledger in folder.glob("*.ledger"):
        for line in ledger.read_text().splitlines():
            word, run_id, *_ = [*line.split(), "", ""]
            words[word][RunId(run_id)] += 1
    findings.accepted = len(words["accepted"])
    findings.lost = sum(run_id not in state.accepted_seqs for run_id in words["accepted"])
    findings.executed_twice = sum(count > 1 for count in words["settled"].values())
    if not anyone_was_killed:
        findings.executed_twice += sum(count > 1 for count in words["started"].values())
        findings.executed_twice += sum(words["refused"].values())
