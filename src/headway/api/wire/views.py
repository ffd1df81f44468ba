"""Encode resources as JSON text. The encoders are derived from the response models.

Stored documents are JSON already. They are inserted as text, without decoding them.
"""

import json
from collections.abc import Iterable
from typing import Final

from headway.api.wire import api_models as models
from headway.api.wire.event_views import EncodedEventView, EventPage, EventView
from headway.core.batch_state import CARRIED_GENERATION, InboxItem, Instance, SavedKey
from headway.core.ids import Instant, RunId
from headway.core.json_encoder import Json, derive_encoder, derive_extension
from headway.core.run.events import Event, EventType
from headway.core.run.explain import Explanation
from headway.core.run.run import QueueRank, Run, RunRecord
from headway.core.run.status import RunStatus, row_status_name
from headway.core.run.window import Window
from headway.core.schedule import SavedSchedule, Schedule
from headway.core.stored_file import StoredFile
from headway.ports.board_reader import ListedInterrupt
from headway.ports.run_reader import LaneCounts

_encode_run: Final = derive_encoder(models.RunView)
_extend_run: Final = derive_extension(models.RunDetails)
_encode_message: Final = derive_encoder(models.MessageView)
_encode_file: Final = derive_encoder(models.FileView)
_encode_lane: Final = derive_encoder(models.LaneResponse)
_encode_key: Final = derive_encoder(models.KeyView)
_encode_interrupt: Final = derive_encoder(models.InterruptView)
_encode_instance: Final = derive_encoder(models.InstanceView)
_extend_instance: Final = derive_extension(models.HolderView)
_encode_schedule: Final = derive_encoder(models.ScheduleView)
_encode_explanation: Final = derive_encoder(models.ExplanationView)
_encode_event: Final = derive_encoder(EncodedEventView)
encode_cancel: Final = derive_encoder(models.CancelView)
encode_stop: Final = derive_encoder(models.StopView)
encode_stopped_run: Final = derive_encoder(models.StoppedRunView)
encode_clear: Final = derive_encoder(models.ClearView)
encode_job: Final = derive_encoder(models.JobView)
encode_job_list: Final = derive_encoder(models.JobList)
encode_lane_list: Final = derive_encoder(models.LaneList)
encode_instance_list: Final = derive_encoder(models.InstanceList)
encode_schedule_list: Final = derive_encoder(models.ScheduleList)
encode_event_page: Final = derive_encoder(EventPage)


def run_view(record: RunRecord) -> Json[models.RunView]:
    run = record.run
    return _encode_run(
        id=run.id,
        key=run.key,
        job=run.job,
        lane=run.lane,
        mode=run.mode,
        status=run.status,
        state=row_status_name(run.status, has_started=run.started_at is not None),
        is_waiting=run.status is RunStatus.RUNNING and run.slot is None,
        is_behind=run.queue_rank == QueueRank.BEHIND,
        seq=run.seq,
        ready_seq=run.ready_seq,
        revision=run.revision,
        generation=run.generation,
        attempt=run.attempt,
        unread_count=run.unread_count,
        is_listening=run.window == Window.STREAMING,
        queued_at=run.queued_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        updated_at=_updated_at(run),
        wake_at=run.wake_at,
        run_deadline_at=run.run_deadline_at,
        cancel_deadline_at=run.cancel_deadline_at,
        continued_from=run.continued_from,
        parent_id=run.parent_id,
        traceparent=run.traceparent,
        params=record.params,
        progress=record.progress,
        checkpoint=record.checkpoint,
        result=record.result,
        error=record.error,
        cancel=record.cancel,
    )


def run_details(record: RunRecord) -> Json[models.RunDetails]:
    """Return the view of a single run, with the traceback of its last failure."""
    return _extend_run(run_view(record), traceback=record.traceback)


def _updated_at(run: Run) -> Instant:
    # An older headway version that shares the database does not write `updated_at`.
    return run.updated_at or run.ended_at or run.started_at or run.queued_at


def message_view(item: InboxItem) -> Json[models.MessageView]:
    is_carried = item.consumed_generation == CARRIED_GENERATION
    return _encode_message(
        seq=item.seq,
        by=item.by,
        at=item.at,
        content=item.payload,
        read=item.consumed_generation is not None and not is_carried,
        carried=is_carried,
    )


def file_view(file: StoredFile) -> Json[models.FileView]:
    return _encode_file(path=file.path, byte_count=file.byte_count, at=file.at)


def lane_view(view: LaneCounts) -> Json[models.LaneResponse]:
    lane = view.lane
    return _encode_lane(
        name=lane.name,
        max_concurrent=lane.max_concurrent,
        max_queued=lane.max_queued,
        paused=bool(lane.is_paused),
        revision=lane.revision,
        held_count=view.held_count,
        queued_count=view.queued_count,
        waiting_count=view.waiting_count,
    )


def key_view(saved: SavedKey) -> Json[models.KeyView]:
    return _encode_key(
        key=saved.key,
        job=saved.job,
        params=saved.params,
        revision=saved.revision,
        updated_at=saved.updated_at,
    )


def interrupt_view(listed: ListedInterrupt) -> Json[models.InterruptView]:
    interrupt = listed.interrupt
    schema = interrupt.answer_schema
    return _encode_interrupt(
        run_id=interrupt.run_id,
        call_id=interrupt.call_id,
        key=listed.key,
        job=listed.job,
        lane=listed.lane,
        asked_at=interrupt.asked_at,
        question=interrupt.question,
        schema_=None if schema is None else Json(schema),
        default=interrupt.default_answer,
        answer_deadline_at=interrupt.answer_deadline_at,
    )


def instance_view(instance: Instance) -> Json[models.InstanceView]:
    return _encode_instance(
        id=instance.id,
        host=instance.host,
        pid=instance.pid,
        started_at=instance.started_at,
        lease_expires_at=instance.lease_expires_at,
    )


def holder_view(instance: Instance, held: Iterable[RunId]) -> Json[models.HolderView]:
    return _extend_instance(instance_view(instance), run_ids=held)


def schedule_view(schedule: Schedule, saved: SavedSchedule | None) -> Json[models.ScheduleView]:
    """Return the JSON of a schedule. `saved` is None until an instance has read the schedule."""
    is_current = saved is not None and saved.expression == schedule.expression
    last_at = saved.last_fire_at if saved is not None and is_current else None
    is_paused = saved is not None and bool(saved.is_paused)
    next_at = None if last_at is None or is_paused else schedule.next_fire_at(after=last_at)
    return _encode_schedule(
        name=schedule.name,
        expression=schedule.expression,
        time_zone=schedule.time_zone,
        missed=schedule.missed,
        job=schedule.job,
        key=schedule.key,
        lane=schedule.lane,
        params=schedule.params,
        decided_until=last_at,
        next_fire_at=next_at,
        paused=is_paused,
        revision=0 if saved is None else saved.revision,
    )


def event_view(event: Event) -> Json[EventView]:
    state = None
    if event.type == EventType.STATE_CHANGED:
        payload = json.loads(event.payload)
        has_started = payload["from"] not in (None, RunStatus.QUEUED.value)
        state = row_status_name(RunStatus(payload["to"]), has_started=has_started)
    return _encode_event(  # type: ignore[return-value]  # Every model of EventView has its fields.
        seq=event.seq,
        type=event.type,
        run_id=event.run_id,
        run_seq=event.run_seq,
        key=event.key,
        lane=event.lane,
        at=event.at,
        state=state,
        payload=event.payload,
    )


def explanation_view(explanation: Explanation) -> Json[models.ExplanationView]:
    return _encode_explanation(
        run_id=explanation.run_id,
        status=explanation.status,
        gate=explanation.gate.value,
        sentence=explanation.sentence,
        remedy=explanation.remedy,
        since=explanation.since,
        holder_ids=list(explanation.holder_ids),
        position=explanation.position,
        until=explanation.until,
        parent_id=explanation.parent_id,
    )
