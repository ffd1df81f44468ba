"""Events in lines, as a person reads them."""

from collections.abc import Iterator
from typing import Any, Final

from headway.cli.output.printing import plain, short
from headway.core.run.events import EventType

GONE: Final = "earlier events are no longer kept"
WORDS: Final[dict[str, str]] = {
    EventType.WAITING: "Waiting",
    EventType.PARKED: "Waiting",
    EventType.WOKEN: "Woken",
    EventType.RESUMED: "Goes on",
    EventType.TAKEN_OVER: "Its program died; another takes it over",
    EventType.CANCEL_DELIVERED: "Its job is told to end",
}
"""What is all that a person wants to know of such an event."""
SELF_EVIDENT: Final = frozenset({EventType.LOG, EventType.STATE_CHANGED, "resync"})
"""What is told of them says of what type they are."""


def clock_time(instant: str) -> str:
    """12:03:01 of an instant, in UTC."""
    return instant[11:19]


def event_lines(event: dict[str, Any]) -> Iterator[str]:
    """For a pipe: when, what, and what of it, with tabs between."""
    at = plain(event.get("at", ""))
    for words in told(event):
        yield f"{at}\t{plain(event['type'])}\t{words}"


def told(event: dict[str, Any]) -> list[str]:
    """In words: a line, or of what a job has logged each line that it has."""
    match event["type"], event.get("payload"):
        case "run_log", {"lines": [*lines]}:
            return [_log_line(line) for line in lines]
        case _, payload:
            return [_told(event, payload)]


def told_alone(event: dict[str, Any]) -> list[str]:
    """In words beside which no type stands, as on a terminal."""
    kind, payload = event["type"], event.get("payload")
    if kind in WORDS:
        return [WORDS[kind]]
    if kind in SELF_EVIDENT:
        return told(event)
    return [f"{plain(kind)} {_told(event, payload)}" if payload else plain(kind)]


def _told(event: dict[str, Any], payload: Any) -> str:
    match event["type"], payload:
        case "run_state_changed", _:
            return plain(event["state"]) + _why(payload)
        case "permission_request", {"call_id": call_id, "question": question}:
            return f"{plain(call_id)} asks {short(question)}"
        case "run_messages_unread", {"count": count, "messages": messages}:
            texts = "; ".join(short(one.get("message")) for one in messages)
            return f"{plain(str(count))} not read by the job: {texts}"
        case "run_answers_unread", {"count": count, "answers": answers}:
            texts = "; ".join(f"{plain(one['call_id'])} {short(one['answer'])}" for one in answers)
            return f"{plain(str(count))} not heard by the job: {texts}"
        case "run_messages_carried", {"count": count, "to": to}:
            return f"{plain(str(count))} carried over to run {plain(str(to))}"
        case "resync", _:
            return GONE
        case _:
            return short(payload)


def _log_line(line: Any) -> str:
    match line:
        case {"level": level, "message": message, **fields}:
            mark = "" if level == "info" else f"{level}: "
            more = f" {short(fields)}" if fields else ""
            return f"{plain(mark)}{short(message)}{more}"
        case _:
            return short(line)


def _why(payload: Any) -> str:
    error = payload.get("error") if isinstance(payload, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return f": {short(message)}" if message else ""
