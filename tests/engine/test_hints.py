"""Hints make it fast, polling makes it certain: each is enough without the other."""

import asyncio
from collections.abc import Callable

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.sql_store import SqlStore
from headway.services.engine import claimer as claiming
from headway.services.engine import engine
from headway.services.submit import run_watcher as news

pytestmark = pytest.mark.backend("sqlite")


def no_op(url: str) -> Headway:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext, number: int) -> int:
        return number

    return hw


@pytest.mark.proves("I8")
async def test_with_every_hint_lost_polling_still_starts_and_finds_the_end(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hear_nothing(self: SqlStore, *_: object, **__: object) -> Callable[[], None]:
        return lambda: None

    monkeypatch.setattr(SqlStore, "listen", hear_nothing)
    monkeypatch.setattr(SqlStore, "accompany", hear_nothing)
    monkeypatch.setattr(claiming, "POLL_S", 0.01)
    monkeypatch.setattr(engine, "POLL_S", 0.01)
    monkeypatch.setattr(news, "POLL_S", 0.01)
    async with no_op(url) as hw:
        runs = [await hw.start("work", params={"number": number}) for number in range(5)]
        assert [await run.result() for run in runs] == list(range(5))


@pytest.mark.proves("I8")
async def test_no_hint_is_missed_by_one_who_looks_while_it_comes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "POLL_S", 3_600)
    monkeypatch.setattr(engine, "POLL_S", 3_600)
    monkeypatch.setattr(news, "POLL_S", 3_600)
    async with no_op(url) as hw, asyncio.timeout(60):
        for number in range(50):
            run = await hw.start("work", params={"number": number})
            assert await run.result() == number
