"""Hints make the engine fast and polls make it reliable: each suffices without the other."""

import asyncio
from collections.abc import Callable

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.sql_store import SqlStore
from headway.services.engine import claimer, engine
from headway.services.submit import run_watcher

pytestmark = pytest.mark.backend("sqlite")


def headway_with_job(url: str) -> Headway:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext, number: int) -> int:
        return number

    return hw


@pytest.mark.proves("I8")
async def test_polling_starts_and_ends_runs_without_any_hint(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listen_to_nothing(self: SqlStore, *_: object, **__: object) -> Callable[[], None]:
        return lambda: None

    monkeypatch.setattr(SqlStore, "listen", listen_to_nothing)
    monkeypatch.setattr(SqlStore, "piggyback", listen_to_nothing)
    monkeypatch.setattr(claimer, "POLL_S", 0.01)
    monkeypatch.setattr(engine, "POLL_S", 0.01)
    monkeypatch.setattr(run_watcher, "POLL_S", 0.01)
    async with headway_with_job(url) as hw:
        runs = [await hw.start("work", params={"number": number}) for number in range(5)]
        assert [await run.result() for run in runs] == list(range(5))


@pytest.mark.proves("I8")
async def test_a_hint_that_arrives_during_a_poll_is_not_missed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claimer, "POLL_S", 3_600)
    monkeypatch.setattr(engine, "POLL_S", 3_600)
    monkeypatch.setattr(run_watcher, "POLL_S", 3_600)
    async with headway_with_job(url) as hw, asyncio.timeout(60):
        for number in range(50):
            run = await hw.start("work", params={"number": number})
            assert await run.result() == number
