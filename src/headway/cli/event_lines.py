"""An event in one line, as a person reads it."""

from typing import Any

from headway.cli.show import plain, short


def clock_time(instant: str) -> str:
    """12:03:01 of an instant, in UTC."""
    return instant[11:19]


def event_line(event: dict[str, Any]) -> str:
    """For a pipe: when, what, and what of it, with tabs between."""
    at = plain(event.get("at", ""))
    return f"{at}\t{plain(event['type'])}\t{told(event)}"


def told(event: dict[str, Any]) -> str:
    payload = event.get("payload")
    match event["type"], payload:
        case "run_state_changed", _:
            return plain(event["state"]) + _why(payload)
        case "run_log", {"level": level, "message": message, **fields}:
            mark = "" if level == "info" else f"{level}: "
            more = f" {short(fields)}" if fields else ""
            return f"{plain(mark)}{short(message)}{more}"
        case "permission_request", {"call_id": call_id, "question": question}:
            return f"{plain(call_id)} asks {short(question)}"
        case "resync", _:
            return "earlier events are no longer kept"
        case _:
            return short(payload)


def _why(payload: Any) -> str:
    error = payload.get("error") if isinstance(payload, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return f": {short(message)}" if message else ""
