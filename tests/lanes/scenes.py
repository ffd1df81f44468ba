"""Work that stops where a test needs it, and a clock that a test moves."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from headway.lanes.entry import Entry, Priority, TaskId


class ManualClock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


class WorkStage:
    """Work that records when it begins, and ends when it is released."""

    def __init__(self) -> None:
        self.calls: list[asyncio.Task[str]] = []
        self.begun: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}

    def work(self, name: str) -> Callable[[], Awaitable[str]]:
        gate = self._gates.setdefault(name, asyncio.Event())

        async def perform() -> str:
            self.begun.append(name)
            await gate.wait()
            return f"{name} done"

        return perform

    async def call(self, coroutine: Coroutine[Any, Any, str]) -> asyncio.Task[str]:
        """Start a coroutine in a task, and run the loop until that task waits."""
        task = asyncio.create_task(coroutine)
        self.calls.append(task)
        await settle()
        return task

    async def release(self, *names: str) -> None:
        for name in names:
            self._gates[name].set()
        await settle()

    async def close(self) -> None:
        for call in self.calls:
            call.cancel()
        await asyncio.gather(*self.calls, return_exceptions=True)


async def settle() -> None:
    """Run the loop until all tasks wait for something other than their turn."""
    for _ in range(20):
        await asyncio.sleep(0)


def an_entry(number: int, *, lane: str = "main", priority: Priority = Priority.NORMAL) -> Entry:
    return Entry(task_id=TaskId(number), lane=lane, enqueued_s=0.0, priority=priority)


def log_records(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if vars(record).get("event") == event]
