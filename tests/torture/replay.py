"""Replay the event stream and the ledgers, and count what must never have happened."""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from headway.adapters.sql.store import SqlStore
from headway.core.ids import Key, RunId
from headway.core.run.events import Event, EventType
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.ports.run_reader import RunFilter

PAGE_COUNT = 5_000


@dataclass(slots=True)
class Findings:
    runs: int = 0
    events: int = 0
    accepted: int = 0
    told: int = 0
    """Refused, and told which run is active."""
    lost: int = 0
    """Accepted by the word of the store, and not there."""
    unfinished: int = 0
    ended_twice: int = 0
    executed_twice: int = 0
    """Started more than once although nobody was killed, or settled more than once."""
    two_of_a_key: int = 0
    above_the_limit: int = 0
    out_of_order: int = 0
    gaps: int = 0
    stale_writes: int = 0
    """What reached a server that the database had left."""
    slots_held_max: int = 0
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
            + len(self.faults)
        )


@dataclass(slots=True)
class _Replay:
    findings: Findings
    lane_limit: int
    last_seq: int = 0
    holding: set[RunId] = field(default_factory=set)
    running: dict[Key, RunId] = field(default_factory=dict)
    accepted_seqs: dict[RunId, int] = field(default_factory=dict)
    last_started: dict[Key, int] = field(default_factory=dict)
    ended: set[RunId] = field(default_factory=set)

    def take(self, event: Event) -> None:
        self.findings.gaps += event.seq != self.last_seq + 1
        self.last_seq = event.seq
        self.findings.events += 1
        if event.run_id is None or event.key is None:
            return
        match event.type:
            case EventType.STATE_CHANGED:
                self._move(event, event.run_id, event.key)
            case EventType.TAKEN_OVER:
                self.holding.discard(event.run_id)
            case EventType.RESUMED:
                self._hold(event.run_id)
            case _:
                return

    def _move(self, event: Event, run_id: RunId, key: Key) -> None:
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
            self._hold(run_id)
        if move["to"] in TERMINAL:
            self.findings.ended_twice += run_id in self.ended
            self.ended.add(run_id)
            self.holding.discard(run_id)
            if self.running.get(key) == run_id:
                del self.running[key]

    def _hold(self, run_id: RunId) -> None:
        self.holding.add(run_id)
        held_count = len(self.holding)
        self.findings.above_the_limit += held_count > self.lane_limit
        self.findings.slots_held_max = max(self.findings.slots_held_max, held_count)


async def replay(
    store: SqlStore, folder: Path, *, lane_limit: int, anyone_was_killed: bool
) -> Findings:
    findings = Findings()
    state = _Replay(findings, lane_limit)
    while True:  # The stream has an end: nobody writes any more.
        page = await store.events.events(after_seq=state.last_seq, limit=PAGE_COUNT)
        for event in page.events:
            state.take(event)
        if not page.events:
            break
    findings.gaps += page.last_seq != state.last_seq
    findings.unfinished = len(state.accepted_seqs) - len(state.ended)
    still_active = await store.runs.list_runs(
        RunFilter(statuses=frozenset(RunStatus) - TERMINAL), limit=PAGE_COUNT
    )
    findings.unfinished += len(still_active)
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
