"""The terminal display of one run."""

from typing import Any

import pytest
from rich.console import Console

from headway.cli.output.screen import RunScreen

RUN = {
    "id": "r1",
    "key": "r1",
    "job": "echo",
    "lane": "main",
    "state": "Running",
    "attempt": 1,
    "progress": None,
    "queued_at": "2026-01-01T18:00:00Z",
    "started_at": "2026-01-01T18:00:00Z",
    "ended_at": "2026-01-01T18:00:09Z",
}


@pytest.mark.proves("R1.11")
@pytest.mark.parametrize(
    ("event_type", "payload", "text"),
    [
        ("run_waiting", {}, "Waiting"),
        ("run_parked", {}, "Waiting"),
        ("run_woken", {}, "Woken"),
        ("run_resumed", {"generation": 1}, "Resumed"),
        ("run_taken_over", {"death_count": 1}, "Its process exited; another process takes over"),
        ("run_cancel_delivered", {}, "The cancel has reached its job"),
        ("run_messages_consumed", {"count": 2}, 'run_messages_consumed {"count": 2}'),
        ("photographed", {}, "photographed"),
        ("photographed", None, "photographed"),
        ("photographed", {"room": "hall"}, 'photographed {"room": "hall"}'),
        ("run_log", {"lines": [{"level": "info", "message": "hello"}]}, "hello"),
        ("resync", None, "earlier events are no longer available"),
    ],
)
def test_every_event_has_a_description(event_type: str, payload: Any, text: str) -> None:
    """The payload alone does not describe an event, so it is never shown without its type."""
    screen = RunScreen(RUN)
    screen.add_event({"type": event_type, "payload": payload, "at": "2026-01-01T18:00:21Z"})
    console = Console(width=100)
    with console.capture() as shown:
        console.print(screen)
    assert shown.get().splitlines()[-1].rstrip() == f"  18:00:21  {text}"
