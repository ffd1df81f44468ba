"""Resources as JSON text.

Stored documents are JSON already. They are inserted as text, without decoding them.
"""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from headway.core.batch_state import CARRIED_GENERATION, InboxItem, Instance, SavedKey
from headway.core.ids import Instant, RunId
from headway.core.lane_row import LaneRow
from headway.core.run.events import Event, EventType
from headway.core.run.explain import Explanation
from headway.core.run.run import QueueRank, Run, RunRecord
from headway.core.run.status import RunStatus, row_status_name
from headway.core.run.window import Window
from headway.core.schedule import SavedSchedule, Schedule
from headway.core.secret import redact
from headway.core.stored_file import StoredFile
from headway.ports.board_reader import ListedInterrupt
from headway.ports.run_reader import LaneCounts

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # UTC, like all instants.
_encode_text = json.JSONEncoder(ensure_ascii=False).encode


def format_instant(at: Instant) -> str:
    """Format an instant by RFC 3339 in UTC, to the microsecond."""
    return f"{(EPOCH + timedelta(microseconds=at)).isoformat(timespec='microseconds')}Z"


def _encode_instant(at: Instant | None) -> str:
    return "null" if at is None else f'"{format_instant(at)}"'


def _encode_optional_text(text: str | None) -> str:
    return "null" if text is None else _encode_text(text)


def _encode_document(document: str | None) -> str:
    return "null" if document is None else redact(document)


def to_json_array(items: Iterable[str]) -> str:
    return f"[{','.join(items)}]"


def run_view(record: RunRecord) -> str:
    run = record.run
    state = row_status_name(run.status, has_started=run.started_at is not None)
    is_waiting = run.status is RunStatus.RUNNING and run.slot is None
    behind = run.queue_rank == QueueRank.BEHIND
    ready_seq = "null" if run.ready_seq is None else str(run.ready_seq)
    return (
        f'{{"id":"{run.id}","key":{_encode_text(run.key)},"job":{_encode_text(run.job)}'
        f',"lane":{_encode_text(run.lane)},"mode":"{run.mode.value}","status":"{run.status.value}"'
        f',"state":"{state}","is_waiting":{_encode_bool(is_waiting)},"is_behind":{_encode_bool(behind)}'
        f',"seq":{run.seq},"ready_seq":{ready_seq},"revision":{run.revision},"generation":{run.generation}'
        f',"attempt":{run.attempt},"unread_count":{run.unread_count}'
        f',"is_listening":{_encode_bool(run.window == Window.STREAMING)}'
        f',"queued_at":{_encode_instant(run.queued_at)},"started_at":{_encode_instant(run.started_at)}'
        f',"ended_at":{_encode_instant(run.ended_at)},"updated_at":{_encode_instant(_updated_at(run))}'
        f',"wake_at":{_encode_instant(run.wake_at)}'
        f',"run_deadline_at":{_encode_instant(run.run_deadline_at)},"cancel_deadline_at":{_encode_instant(run.cancel_deadline_at)}'
        f',"continued_from":{_encode_optional_text(run.continued_from)},"parent_id":{_encode_optional_text(run.parent_id)}'
        f',"traceparent":{_encode_optional_text(run.traceparent)}'
        f',"params":{redact(record.params)},"progress":{_encode_document(record.progress)}'
        f',"checkpoint":{_encode_document(record.checkpoint)},"result":{_encode_document(record.result)}'
        f',"error":{_encode_document(record.error)},"cancel":{record.cancel or "null"}}}'
    )


def run_details(record: RunRecord) -> str:
    """Return the view of a single run, with the traceback of its last failure."""
    return f'{run_view(record)[:-1]},"traceback":{_encode_optional_text(record.traceback)}}}'


def _updated_at(run: Run) -> Instant:
    # An older headway version that shares the database does not write the column.
    return run.updated_at or run.ended_at or run.started_at or run.queued_at


def message_view(item: InboxItem) -> str:
    is_carried = item.consumed_generation == CARRIED_GENERATION
    is_read = item.consumed_generation is not None and not is_carried
    return (
        f'{{"seq":{item.seq},"by":{_encode_text(item.by)},"at":{_encode_instant(item.at)}'
        f',"content":{redact(item.payload)},"read":{_encode_bool(is_read)},"carried":{_encode_bool(is_carried)}}}'
    )


def file_view(file: StoredFile) -> str:
    path, at = _encode_text(file.path), _encode_instant(file.at)
    return f'{{"path":{path},"byte_count":{file.byte_count},"at":{at}}}'


def _encode_bool(value: object) -> str:
    return "true" if value else "false"


def lane_view(view: LaneCounts) -> str:
    return _encode_lane(
        view.lane,
        f',"held_count":{view.held_count},"queued_count":{view.queued_count}'
        f',"waiting_count":{view.waiting_count}',
    )


def _encode_lane(lane: LaneRow, counts: str) -> str:
    queued_max = "null" if lane.max_queued is None else str(lane.max_queued)
    return (
        f'{{"name":{_encode_text(lane.name)},"max_concurrent":{lane.max_concurrent}'
        f',"max_queued":{queued_max},"paused":{_encode_bool(lane.is_paused)}'
        f',"revision":{lane.revision}{counts}}}'
    )


def key_view(saved: SavedKey) -> str:
    return (
        f'{{"key":{_encode_text(saved.key)},"job":{_encode_text(saved.job)},"params":{redact(saved.params)}'
        f',"revision":{saved.revision},"updated_at":{_encode_instant(saved.updated_at)}}}'
    )


def interrupt_view(listed: ListedInterrupt) -> str:
    interrupt = listed.interrupt
    return (
        f'{{"run_id":"{interrupt.run_id}","call_id":{_encode_text(interrupt.call_id)}'
        f',"key":{_encode_text(listed.key)},"job":{_encode_text(listed.job)}'
        f',"lane":{_encode_text(listed.lane)},"asked_at":{_encode_instant(interrupt.asked_at)}'
        f',"question":{redact(interrupt.question)},"schema":{interrupt.answer_schema or "null"}'
        f',"default":{_encode_document(interrupt.default_answer)},"answer_deadline_at":{_encode_instant(interrupt.answer_deadline_at)}}}'
    )


def instance_view(instance: Instance) -> str:
    return (
        f'{{"id":"{instance.id}","host":{_encode_text(instance.host)},"pid":{instance.pid}'
        f',"started_at":{_encode_instant(instance.started_at)}'
        f',"lease_expires_at":{_encode_instant(instance.lease_expires_at)}}}'
    )


def holder_view(instance: Instance, held: Iterable[RunId]) -> str:
    run_ids = to_json_array(f'"{run_id}"' for run_id in held)
    return f'{instance_view(instance)[:-1]},"run_ids":{run_ids}}}'


def schedule_view(schedule: Schedule, saved: SavedSchedule | None) -> str:
    """Return the JSON of a schedule. `saved` is None until an instance has read it."""
    is_current = saved is not None and saved.expression == schedule.expression
    last_at = saved.last_fire_at if saved is not None and is_current else None
    is_paused = saved is not None and bool(saved.is_paused)
    next_at = None if last_at is None or is_paused else schedule.next_fire_at(after=last_at)
    return (
        f'{{"name":{_encode_text(schedule.name)},"expression":{_encode_text(schedule.expression)}'
        f',"time_zone":{_encode_text(schedule.time_zone)},"missed":"{schedule.missed.value}"'
        f',"job":{_encode_text(schedule.job)},"key":{_encode_text(schedule.key)}'
        f',"lane":{_encode_text(schedule.lane)},"params":{redact(schedule.params)}'
        f',"decided_until":{_encode_instant(last_at)},"next_fire_at":{_encode_instant(next_at)}'
        f',"paused":{_encode_bool(is_paused)},"revision":{0 if saved is None else saved.revision}}}'
    )


def event_view(event: Event) -> str:
    state = ""
    if event.type == EventType.STATE_CHANGED:
        payload = json.loads(event.payload)
        has_started = payload["from"] not in (None, RunStatus.QUEUED.value)
        state = f',"state":"{row_status_name(RunStatus(payload["to"]), has_started=has_started)}"'
    run_seq = "null" if event.run_seq is None else str(event.run_seq)
    return (
        f'{{"seq":{event.seq},"type":{_encode_text(event.type)},"run_id":{_encode_optional_text(event.run_id)}'
        f',"run_seq":{run_seq},"key":{_encode_optional_text(event.key)},"lane":{_encode_optional_text(event.lane)}'
        f',"at":{_encode_instant(event.at)}{state},"payload":{redact(event.payload)}}}'
    )


def explanation_view(explanation: Explanation) -> str:
    return json.dumps(
        {
            "run_id": explanation.run_id,
            "status": explanation.status.value,
            "gate": explanation.gate.value,
            "sentence": explanation.sentence,
            "remedy": explanation.remedy,
            "since": None if explanation.since is None else format_instant(explanation.since),
            "holder_ids": list(explanation.holder_ids),
            "position": explanation.position,
            "until": None if explanation.until is None else format_instant(explanation.until),
            "parent_id": explanation.parent_id,
        },
        ensure_ascii=False,
    )
