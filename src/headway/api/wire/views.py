"""What is answered, as JSON text.

Documents are JSON already: they are put in as they are, and never taken apart on the way.
"""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from headway.core.batch_state import CARRIED, InboxItem, Instance, SavedKey
from headway.core.ids import Instant, RunId
from headway.core.lane_row import Lane
from headway.core.run.events import Event, EventType
from headway.core.run.explain import Explanation
from headway.core.run.run import QueueRank, Run, RunRecord
from headway.core.run.status import RunStatus, row_word
from headway.core.run.window import Window
from headway.core.schedule import SavedSchedule, Schedule
from headway.core.secret import veiled
from headway.core.stored_file import StoredFile
from headway.ports.board_reader import Interrupt
from headway.ports.run_reader import LaneView

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # In UTC, like all that is counted from it.
_text = json.JSONEncoder(ensure_ascii=False).encode


def instant(at: Instant) -> str:
    """RFC 3339 in UTC, to the microsecond."""
    return f"{(EPOCH + timedelta(microseconds=at)).isoformat(timespec='microseconds')}Z"


def _at(at: Instant | None) -> str:
    return "null" if at is None else f'"{instant(at)}"'


def _or_null(text: str | None) -> str:
    return "null" if text is None else _text(text)


def _document(document: str | None) -> str:
    return "null" if document is None else veiled(document)


def listed(items: Iterable[str]) -> str:
    return f"[{','.join(items)}]"


def run_view(record: RunRecord) -> str:
    run = record.run
    word = row_word(run.status, has_started=run.started_at is not None)
    is_waiting = run.status is RunStatus.RUNNING and run.slot is None
    behind = run.queue_rank == QueueRank.BEHIND
    ready_seq = "null" if run.ready_seq is None else str(run.ready_seq)
    return (
        f'{{"id":"{run.id}","key":{_text(run.key)},"job":{_text(run.job)}'
        f',"lane":{_text(run.lane)},"mode":"{run.mode.value}","status":"{run.status.value}"'
        f',"state":"{word}","is_waiting":{_flag(is_waiting)},"is_behind":{_flag(behind)}'
        f',"seq":{run.seq},"ready_seq":{ready_seq},"revision":{run.revision},"generation":{run.generation}'
        f',"attempt":{run.attempt},"unread_count":{run.unread_count}'
        f',"is_listening":{_flag(run.is_interactive == Window.STREAMING)}'
        f',"queued_at":{_at(run.queued_at)},"started_at":{_at(run.started_at)}'
        f',"ended_at":{_at(run.ended_at)},"updated_at":{_at(_updated_at(run))}'
        f',"wake_at":{_at(run.wake_at)}'
        f',"run_by":{_at(run.run_by)},"cancel_by":{_at(run.cancel_by)}'
        f',"continued_from":{_or_null(run.continued_from)},"parent_id":{_or_null(run.parent_id)}'
        f',"traceparent":{_or_null(run.traceparent)}'
        f',"params":{veiled(record.params)},"progress":{_document(record.progress)}'
        f',"checkpoint":{_document(record.checkpoint)},"result":{_document(record.result)}'
        f',"error":{_document(record.error)},"cancel":{record.cancel or "null"}}}'
    )


def run_details(record: RunRecord) -> str:
    """Return the view of a single run, with the traceback of its last failure."""
    return f'{run_view(record)[:-1]},"traceback":{_or_null(record.traceback)}}}'


def _updated_at(run: Run) -> Instant:
    # An older program that shares the database does not write the column.
    return run.updated_at or run.ended_at or run.started_at or run.queued_at


def message_view(item: InboxItem) -> str:
    is_carried = item.consumed_by == CARRIED
    is_read = item.consumed_by is not None and not is_carried
    return (
        f'{{"seq":{item.seq},"by":{_text(item.by)},"at":{_at(item.at)}'
        f',"content":{veiled(item.payload)},"read":{_flag(is_read)},"carried":{_flag(is_carried)}}}'
    )


def file_view(file: StoredFile) -> str:
    return f'{{"path":{_text(file.path)},"byte_count":{file.byte_count},"at":{_at(file.at)}}}'


def _flag(value: object) -> str:
    return "true" if value else "false"


def lane_view(view: LaneView) -> str:
    return _lane(
        view.lane,
        f',"held_count":{view.held_count},"queued_count":{view.queued_count}'
        f',"waiting_count":{view.waiting_count}',
    )


def _lane(lane: Lane, more: str) -> str:
    queued_max = "null" if lane.max_queued is None else str(lane.max_queued)
    return (
        f'{{"name":{_text(lane.name)},"max_concurrent":{lane.max_concurrent}'
        f',"max_queued":{queued_max},"paused":{_flag(lane.is_paused)}'
        f',"revision":{lane.revision}{more}}}'
    )


def key_view(saved: SavedKey) -> str:
    return (
        f'{{"key":{_text(saved.key)},"job":{_text(saved.job)},"params":{veiled(saved.params)}'
        f',"revision":{saved.revision},"updated_at":{_at(saved.updated_at)}}}'
    )


def interrupt_view(interrupt: Interrupt) -> str:
    asked = interrupt.question
    return (
        f'{{"run_id":"{asked.run_id}","call_id":{_text(asked.call_id)}'
        f',"key":{_text(interrupt.key)},"job":{_text(interrupt.job)}'
        f',"lane":{_text(interrupt.lane)},"asked_at":{_at(asked.asked_at)}'
        f',"question":{veiled(asked.question)},"schema":{asked.answer_schema or "null"}'
        f',"default":{_document(asked.default_answer)},"answer_by":{_at(asked.answer_by)}}}'
    )


def instance_view(instance: Instance) -> str:
    return (
        f'{{"id":"{instance.id}","host":{_text(instance.host)},"pid":{instance.pid}'
        f',"started_at":{_at(instance.started_at)}'
        f',"lease_expires_at":{_at(instance.lease_expires_at)}}}'
    )


def holder_view(instance: Instance, held: Iterable[RunId]) -> str:
    run_ids = listed(f'"{run_id}"' for run_id in held)
    return f'{instance_view(instance)[:-1]},"run_ids":{run_ids}}}'


def schedule_view(schedule: Schedule, saved: SavedSchedule | None) -> str:
    """`saved` is None as long as no instance has looked at the schedule."""
    is_current = saved is not None and saved.expression == schedule.expression
    last_at = saved.last_slot_at if saved is not None and is_current else None
    is_paused = saved is not None and bool(saved.is_paused)
    next_at = None if last_at is None or is_paused else schedule.next_slot(after=last_at)
    return (
        f'{{"name":{_text(schedule.name)},"expression":{_text(schedule.expression)}'
        f',"time_zone":{_text(schedule.time_zone)},"missed":"{schedule.missed.value}"'
        f',"job":{_text(schedule.job)},"key":{_text(schedule.key)}'
        f',"lane":{_text(schedule.lane)},"params":{veiled(schedule.params)}'
        f',"decided_until":{_at(last_at)},"next_slot_at":{_at(next_at)}'
        f',"paused":{_flag(is_paused)},"revision":{0 if saved is None else saved.revision}}}'
    )


def event_view(event: Event) -> str:
    state = ""
    if event.type == EventType.STATE_CHANGED:
        payload = json.loads(event.payload)
        has_started = payload["from"] not in (None, RunStatus.QUEUED.value)
        state = f',"state":"{row_word(RunStatus(payload["to"]), has_started=has_started)}"'
    run_seq = "null" if event.run_seq is None else str(event.run_seq)
    return (
        f'{{"seq":{event.seq},"type":{_text(event.type)},"run_id":{_or_null(event.run_id)}'
        f',"run_seq":{run_seq},"key":{_or_null(event.key)},"lane":{_or_null(event.lane)}'
        f',"at":{_at(event.at)}{state},"payload":{veiled(event.payload)}}}'
    )


def explanation_view(explanation: Explanation) -> str:
    return json.dumps(
        {
            "run_id": explanation.run_id,
            "status": explanation.status.value,
            "gate": explanation.gate.value,
            "sentence": explanation.sentence,
            "remedy": explanation.remedy,
            "since": None if explanation.since is None else instant(explanation.since),
            "held_by": list(explanation.held_by),
            "position": explanation.position,
            "until": None if explanation.until is None else instant(explanation.until),
            "parent_id": explanation.parent_id,
        },
        ensure_ascii=False,
    )
