"""What a person sees of one run on a terminal."""

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
    ("kind", "payload", "words"),
    [
        ("run_waiting", {}, "Waiting"),
        ("run_parked", {}, "Waiting"),
        ("run_woken", {}, "Woken"),
        ("run_resumed", {"generation": 1}, "Goes on"),
        ("run_taken_over", {"death_count": 1}, "Its program died; another takes it over"),
        ("run_cancel_delivered", {}, "Its job is told to end"),
        ("run_messages_consumed", {"count": 2}, 'run_messages_consumed {"count": 2}'),
        ("photographed", {}, "photographed"),
        ("photographed", None, "photographed"),
        ("photographed", {"room": "hall"}, 'photographed {"room": "hall"}'),
        ("run_log", {"lines": [{"level": "info", "message": "hello"}]}, "hello"),
        ("resync", None, "earlier events are no longer kept"),
    ],
)
def test_every_event_is_told_in_words(kind: str, payload: Any, words: str) -> None:
    """Never by its payload alone, which says nothing of what has happened."""
    screen = RunScreen(RUN)
    screen.add_event({"type": kind, "payload": payload, "at": "2026-01-01T18:00:21Z"})
    console = Console(width=100)
    with console.capture() as shown:
        console.print(screen)
    assert shown.get().splitlines()[-1].rstrip() == f"  18:00:21  {words}"
