"""Describes events of runs in lines for people."""

from collections.abc import Iterator
from typing import Any, Final

from headway.cli.output.printing import shorten, to_printable
from headway.core.run.events import EventType

EVENTS_REMOVED: Final = "earlier events are no longer available"
EVENT_LABELS: Final[dict[str, str]] = {
    EventType.WAITING: "Waiting",
    EventType.PARKED: "Waiting",
    EventType.WOKEN: "Woken",
    EventType.RESUMED: "Resumed",
    EventType.TAKEN_OVER: "Its process exited; another process takes over",
    EventType.CANCEL_DELIVERED: "The cancel has reached its job",
}
"""Texts for events whose payload is of no interest to people."""
TYPES_WITHOUT_LABEL: Final = frozenset({EventType.LOG, EventType.STATE_CHANGED, "resync"})
"""Types that need no label, because the description of the event makes them clear."""


def clock_time(instant: str) -> str:
    """Return the time of day of an instant in UTC, such as 12:03:01."""
    return instant[11:19]


def format_event_lines(event: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of an event for a pipe: time, type and description, separated by tabs."""
    at = to_printable(event.get("at", ""))
    for description in describe_event(event):
        yield f"{at}\t{to_printable(event['type'])}\t{description}"


def describe_event(event: dict[str, Any]) -> list[str]:
    """Return the description of an event: one line, or one for each line that a job logged."""
    match event["type"], event.get("payload"):
        case "run_log", {"lines": [*lines]}:
            return [_format_log_line(line) for line in lines]
        case _, payload:
            return [_describe_payload(event, payload)]


def describe_event_with_label(event: dict[str, Any]) -> list[str]:
    """Describe an event, and add its type unless the description makes the type clear.

    If the type has a label in `EVENT_LABELS`, return only the label.
    """
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
            texts = "; ".join(shorten(message.get("message")) for message in messages)
            return f"{to_printable(str(count))} not read by the job: {texts}"
        case "run_answers_unread", {"count": count, "answers": answers}:
            texts = "; ".join(
                f"{to_printable(answer['call_id'])} {shorten(answer['answer'])}"
                for answer in answers
            )
            return f"{to_printable(str(count))} not received by the job: {texts}"
        case "run_messages_carried", {"count": count, "to": to}:
            return f"{to_printable(str(count))} carried over to run {to_printable(str(to))}"
        case "resync", _:
            return EVENTS_REMOVED
        case _:
            return shorten(payload)


def _format_log_line(line: Any) -> str:
    match line:
        case {"level": level, "message": message, **fields}:
            prefix = "" if level == "info" else f"{level}: "
            suffix = f" {shorten(fields)}" if fields else ""
            return f"{to_printable(prefix)}{shorten(message)}{suffix}"
        case _:
            return shorten(line)


def _format_reason(payload: Any) -> str:
    error = payload.get("error") if isinstance(payload, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return f": {shorten(message)}" if message else ""
