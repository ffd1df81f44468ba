"""Set the limits of lanes, and clear a lane.

A raised limit takes effect at the next claim. A lowered limit does not stop runs that are running.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RevisionMismatch, RowsNeeded
from headway.core.command.run.cancel import RequestCancel, cancel_run
from headway.core.command.run.end_run import notify_parent
from headway.core.document import check_text, trim_names
from headway.core.errors import InvalidInput
from headway.core.event_payloads import LaneChanged
from headway.core.ids import LaneName, RunId
from headway.core.lane_row import LaneRow, default_lane
from headway.core.run.status import RunStatus

LIMIT_MAX: Final = 1_000_000
CLEAR_COUNT_MAX: Final = 500
BY_CONFIGURATION: Final = "configuration"
"""The `by` of a `lane_changed` event if the configuration changed the lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLane:
    """Change a lane. None leaves a value unchanged; `max_queued=-1` removes the queue limit."""

    name: LaneName
    max_concurrent: int | None = None
    max_queued: int | None = None
    is_paused: bool | None = None
    expected_revision: int | None = None
    by: str = ""

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        trim_names(self, "name")
        check_text(self.by, field="by")
        for field in ("max_concurrent", "max_queued", "expected_revision"):
            number = getattr(self, field)
            if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
                raise InvalidInput(field, "must be a whole number")
        if self.max_concurrent is not None and not 0 <= self.max_concurrent <= LIMIT_MAX:
            raise InvalidInput("max_concurrent", f"must be 0 to {LIMIT_MAX:,}")
        if self.max_queued is not None and not -1 <= self.max_queued <= LIMIT_MAX:
            raise InvalidInput("max_queued", f"must be 0 to {LIMIT_MAX:,}, or -1 for no limit")

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.lanes[self.name] = None
        rows.changed_lanes[self.name] = None

    def decide(self, batch: BatchState) -> LaneRow | RevisionMismatch:
        lane = batch.lane_rows.get(self.name) or default_lane(self.name)
        if self.expected_revision is not None and self.expected_revision != lane.revision:
            return RevisionMismatch(lane.revision)
        changes: dict[str, Any] = {}
        if self.max_concurrent is not None:
            changes |= {"max_concurrent": self.max_concurrent, "is_set_by_hand": 1}
        if self.max_queued is not None:
            changes["max_queued"] = None if self.max_queued == -1 else self.max_queued
        if self.is_paused is not None:
            changes["is_paused"] = int(self.is_paused)
        return _change_lane(batch, lane, changes, by=self.by)


@dataclass(frozen=True, slots=True)
class ProposeLimit:
    """Set the limit that a job proposes for its own lane.

    The proposal has no effect once a person or the configuration has set the limit.
    """

    name: LaneName
    max_concurrent: int

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        trim_names(self, "name")
        assert 0 < self.max_concurrent <= LIMIT_MAX

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.lanes[self.name] = None
        rows.changed_lanes[self.name] = None

    def decide(self, batch: BatchState) -> LaneRow:
        """Return the resulting lane."""
        lane = batch.lane_rows.get(self.name) or default_lane(self.name)
        is_set = lane.is_set_by_hand or lane.configured_limit is not None
        if is_set or lane.max_concurrent == self.max_concurrent:
            return lane
        return _change_lane(batch, lane, {"max_concurrent": self.max_concurrent})


@dataclass(frozen=True, slots=True)
class ConfiguredLane:
    """A lane whose configured limit has changed."""

    name: LaneName
    previous_limit: int
    max_concurrent: int


@dataclass(frozen=True, slots=True)
class ConfigureLanes:
    """Apply all configured limits, or none if one of them is invalid.

    Each lane stores its last configured limit. A lane changes only if the new configured limit is
    different, so a limit that a person has set in the meantime stays. Several instances with the
    same configuration therefore change a lane once. A lane that is no longer configured keeps its
    limit.
    """

    limits: tuple[tuple[LaneName, int], ...]

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        limits: dict[LaneName, int] = {}
        for configured_name, limit in self.limits:
            name = _check_configured(configured_name, limit)
            if name in limits:
                raise InvalidInput("lanes", f"the lane {name!r} is named twice; keep one of them")
            limits[name] = limit
        object.__setattr__(self, "limits", tuple(limits.items()))

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        for name, _ in self.limits:
            rows.lanes[name] = None
            rows.changed_lanes[name] = None

    def decide(self, batch: BatchState) -> tuple[ConfiguredLane, ...]:
        """Return the lanes whose configured limit has changed."""
        changed: list[ConfiguredLane] = []
        for name, limit in self.limits:
            lane = batch.lane_rows.get(name) or default_lane(name)
            if lane.configured_limit == limit:
                continue
            changes = {"max_concurrent": limit, "configured_limit": limit}
            _change_lane(batch, lane, changes, by=BY_CONFIGURATION)
            changed.append(ConfiguredLane(name, lane.max_concurrent, limit))
        return tuple(changed)


def _check_configured(name: LaneName, limit: int | None) -> LaneName:
    """Return the trimmed name of the lane. Raise InvalidInput if name or limit is invalid."""
    if limit is None:
        raise InvalidInput(f"lanes.{name}", "must be a whole number")
    try:
        return SetLane(name=name, max_concurrent=limit).name
    except InvalidInput as error:
        field = "lanes" if error.field == "name" else f"lanes.{name}"
        raise InvalidInput(field, error.problem) from None


def _change_lane(
    batch: BatchState, lane: LaneRow, changes: dict[str, Any], *, by: str = ""
) -> LaneRow:
    lane = lane._replace(revision=lane.revision + 1, **changes)
    batch.lane_rows[lane.name] = batch.changes.lanes[lane.name] = lane
    if lane.name in batch.lane_queues:
        batch.lane_queues[lane.name].lane = lane
    payload = LaneChanged(lane.max_concurrent, lane.max_queued, bool(lane.is_paused), by)
    batch.emit_global(payload, lane=lane.name)
    return lane


@dataclass(frozen=True, slots=True)
class ClearRuns:
    """Cancel the runs in `run_ids` that are queued in `lane`. Runs that have started continue."""

    run_ids: tuple[RunId, ...]
    lane: LaneName
    by: str = ""

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        assert len(self.run_ids) <= CLEAR_COUNT_MAX
        for run_id in self.run_ids[:1]:
            # Refuse invalid arguments here, so that only the caller fails, not the whole batch.
            self._make_request(run_id)

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        for run_id in self.run_ids:
            rows.add_ending_run(run_id)

    def decide(self, batch: BatchState) -> int:
        """Return how many runs were canceled."""
        count = 0
        for run_id in self.run_ids:
            run = batch.run(run_id)
            if run is None or run.status is not RunStatus.QUEUED or run.lane != self.lane:
                continue
            cancel_run(batch, run, self._make_request(run_id))
            notify_parent(batch, run_id)
            count += 1
        return count

    def _make_request(self, run_id: RunId) -> RequestCancel:
        reason = f"lane {self.lane!r} was cleared before this run started"
        return RequestCancel(run_id=run_id, reason=reason, by=self.by)
