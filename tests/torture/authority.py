"""The claims of runs over time, by the event stream, and the writes without a current claim."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headway.core.ids import Instant, RunId
from headway.core.run.events import Event, EventType
from headway.core.run.run import DEATH_COUNT_MAX, STOP_COUNT_MAX, RunRecord
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from tests.torture.engine import STEPPED
from tests.torture.replay import SLOT_GIVEN_BACK, Findings

POISON: Final = "poison"
FOR_EVER: Final = Instant(1 << 62)


@dataclass(slots=True)
class Span:
    begins_at: Instant
    ends_at: Instant = FOR_EVER

    def holds(self, at: Instant) -> bool:
        return self.begins_at <= at <= self.ends_at


@dataclass(slots=True)
class Held:
    """One claim: while it was current, and while it had a slot."""

    claim: Span
    slots: list[Span]


@dataclass(slots=True)
class _Story:
    """The state of a run, by the events so far."""

    last_generation: int = 0
    in_force: int | None = None
    settled_by: int | None = None
    death_count: int = 0
    stop_count: int = 0


@dataclass(slots=True)
class Authority:
    findings: Findings
    held: dict[tuple[RunId, int], Held] = field(default_factory=dict)
    _stories: defaultdict[RunId, _Story] = field(default_factory=lambda: defaultdict(_Story))

    def take(self, event: Event) -> None:
        if event.run_id is None:
            return
        story, payload = self._stories[event.run_id], json.loads(event.payload)
        match event.type:
            case EventType.STATE_CHANGED:
                self._move(event, event.run_id, story, payload)
            case EventType.RESUMED:
                self._resume(event, event.run_id, story, payload["generation"])
            case EventType.CHECKPOINT:
                story.death_count = story.stop_count = 0
            case EventType.PERMISSION_REQUEST:
                self._hear(story, int(payload["call_id"].partition(".")[0]))
            case EventType.PERMISSION_RESULT:
                # A question keeps the call id under which an earlier execution asked it first.
                asked_generation = int(payload["call_id"].partition(".")[0])
                self.findings.stale_words += (
                    story.in_force is None or asked_generation > story.in_force
                )
            case _ if event.type == STEPPED:
                self._hear(story, payload["generation"])
            case _ if event.type in SLOT_GIVEN_BACK:
                self._give_back(event, event.run_id, story, payload)
            case _:
                return

    def _move(self, event: Event, run_id: RunId, story: _Story, payload: Mapping[str, Any]) -> None:
        if payload["to"] == RunStatus.RUNNING:
            self._claim(event, run_id, story, 1)
        elif payload["to"] in TERMINAL:
            story.settled_by = story.in_force
            if payload.get("error", {}).get("code") == POISON:
                is_right = (
                    story.death_count + 1 >= DEATH_COUNT_MAX
                    or story.stop_count + 1 >= STOP_COUNT_MAX
                )
                self.findings.poisoned += is_right
                if not is_right:
                    self.findings.faults.append(f"poison after {story.death_count + 1} deaths")
            self._release(event, run_id, story)

    def _resume(self, event: Event, run_id: RunId, story: _Story, generation: int) -> None:
        if generation == story.in_force:
            self.held[run_id, generation].slots.append(Span(event.at))
        else:
            self._claim(event, run_id, story, generation)

    def _claim(self, event: Event, run_id: RunId, story: _Story, generation: int) -> None:
        is_right = story.in_force is None and generation == story.last_generation + 1
        self.findings.two_of_a_key += not is_right
        story.in_force = story.last_generation = generation
        self.held[run_id, generation] = Held(Span(event.at), [Span(event.at)])

    def _give_back(
        self, event: Event, run_id: RunId, story: _Story, payload: Mapping[str, Any]
    ) -> None:
        if event.type == EventType.WAITING:
            assert story.in_force is not None
            self.held[run_id, story.in_force].slots[-1].ends_at = event.at
            return
        if event.type == EventType.TAKEN_OVER:
            story.death_count += 1
        elif "stop_count" in payload:  # A graceful stop does not reset the counts.
            story.stop_count = payload["stop_count"]
        else:
            story.death_count = story.stop_count = 0
        self._release(event, run_id, story)

    def _release(self, event: Event, run_id: RunId, story: _Story) -> None:
        if story.in_force is None:
            return
        held = self.held[run_id, story.in_force]
        held.claim.ends_at = event.at
        held.slots[-1].ends_at = min(held.slots[-1].ends_at, event.at)
        story.in_force = None

    def _hear(self, story: _Story, generation: int) -> None:
        self.findings.stale_words += generation != story.in_force

    def check_result(self, record: RunRecord) -> None:
        """Check that the one result of a run carries the claim that was current when it was
        accepted.
        """
        if record.run.status is RunStatus.SUCCEEDED:
            assert record.result is not None
            generation = json.loads(record.result)["generation"]
            settled_by = self._stories[record.run.id].settled_by
            is_right = generation == settled_by == record.run.generation
            self.findings.stale_words += not is_right
