"""A claim that is sent before the engine stops and answered while it deregisters."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from headway import Headway, RunContext
from headway.core.command.run.submit import Submit
from headway.core.ids import Key, RunId
from headway.services.engine import engine
from tests.engine.scenes import open_bare_store, records

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("I4", "I17")
async def test_a_claim_answered_during_deregistration_starts_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine would not end such an execution, and others would claim its run as well."""
    monkeypatch.setattr(engine, "UNWIND_S", 0.05)
    hw, begun = Headway(url, stop_wait_s=0), list[str]()

    @hw.job()
    async def work(ctx: RunContext) -> None:
        begun.append(ctx.key)
        await asyncio.Event().wait()

    deregister = engine.Engine._deregister
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as blocking_connection:

        async def answer_then_deregister(self: engine.Engine) -> None:
            blocking_connection.rollback()
            await deregister(self)

        monkeypatch.setattr(engine.Engine, "_deregister", answer_then_deregister)
        async with asyncio.TaskGroup() as group, hw:
            blocking_connection.execute("BEGIN IMMEDIATE")
            submit = Submit(run_id=RunId("late"), key=Key("ann"), job="work")
            group.create_task(hw.store.apply(submit))
            await asyncio.sleep(0)
    assert begun == []
    async with open_bare_store(url) as store:
        (record,) = await records(store)
        assert (record.run.generation, record.run.death_count) == (1, 0)
        assert (record.run.instance_id, record.run.is_parked) == (None, False)
        assert await store.runs.instances() == []
