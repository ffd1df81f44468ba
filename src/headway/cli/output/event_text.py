"""Events in lines, as a person reads them."""

from collections.abc import Iterator
from typing import Any, Final

from headway.cli.output.printing import shorten, to_printable
from headway.core.run.events import EventType

EVENTS_REMOVED: Final = "earlier events are no longer kept"
EVENT_LABELS: Final[dict[str, str]] = {
    EventType.WAITING: "Waiting",
    EventType.PARKED: "Waiting",
    EventType.WOKEN: "Woken",
    EventType.RESUMED: "Goes on",
    EventType.TAKEN_OVER: "Its program died; another takes it over",
    EventType.CANCEL_DELIVERED: "Its job is told to end",
}
"""What is all that a person wants to know of such an event."""
TYPES_WITHOUT_LABEL: Final = frozenset({EventType.LOG, EventType.STATE_CHANGED, "resync"})
"""What is told of them says of what type they are."""


def clock_time(instant: str) -> str:
    """12:03:01 of an instant, in UTC."""
    return instant[11:19]


def format_event_lines(event: dict[str, Any]) -> Iterator[str]:
    """For a pipe: when, what, and what of it, with tabs between."""
    at = to_printable(event.get("at", ""))
    for words in describe_event(event):
        yield f"{at}\t{to_printable(event['type'])}\t{words}"


def describe_event(event: dict[str, Any]) -> list[str]:
    """In words: a line, or of what a job has logged each line that it has."""
    match event["type"], event.get("payload"):
        case "run_log", {"lines": [*lines]}:
            return [_format_log_line(line) for line in lines]
        case _, payload:
            return [_describe_payload(event, payload)]


def describe_event_with_label(event: dict[str, Any]) -> list[str]:
    """In words beside which no type stands, as on a terminal."""
    kind, payload = event["type"], event.get("payload")
    if kind in EVENT_LABELS:
        return [EVENT_LABELS[kind]]
    if kind in TYPES_WITHOUT_LABEL:
        return describe_event(event)
    return [
        f"{to_printable(kind)} {_describe_payload(event, payload)}"
        if payload
        else to_printable(kind)
    ]


def _describe_payload(event: dict[str, Any], payload: Any) -> str:
    match event["type"], payload:
        case "run_state_changed", _:
            return to_printable(event["state"]) + _format_reason(payload)
        case "permission_request", {"call_id": call_id, "question": question}:
            return f"{to_printable(call_id)} asks {shorten(question)}"
        case "run_messages_unread", {"count": count, "messages": messages}:
            texts = "; ".join(shorten(one.get("message")) for one in messages)
            return f"{to_printable(str(count))} not read by the job: {texts}"
        case "run_answers_unread", {"count": count, "answers": answers}:
            texts = "; ".join(
                f"{to_printable(one['call_id'])} {shorten(one['answer'])}" for one in answers
            )
            return f"{to_printable(str(count))} not heard by the job: {texts}"
        case "run_messages_carried", {"count": count, "to": to}:
            return f"{to_printable(str(count))} carried over to run {to_printable(str(to))}"
        case "resync", _:
            return EVENTS_REMOVED
        case _:
            return shorten(payload)


def _format_log_line(line: Any) -> str:
    match line:
        case {"level": level, "message": message, **fields}:
            mark = "" if level == "info" else f"{level}: "
            more = f" {shorten(fields)}" if fields else ""
            return f"{to_printable(mark)}{shorten(message)}{more}"
        case _:
            return shorten(line)


def _format_reason(payload: Any) -> str:
    error = payload.get("error") if isinstance(payload, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return f": {shorten(message)}" if message else ""
