"""What was asked for before the engine stopped, and is answered when it leaves."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from headway import Headway, RunContext
from headway.core.command.run.submit import Submit
from headway.core.ids import Key, RunId
from headway.services.engine import engine
from tests.engine.scenes import looked_at, records

pytestmark = pytest.mark.backend("sqlite")


async def test_dsgn_4_a_claim_that_is_answered_while_the_engine_leaves_begins_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4, I17: nobody would end what began then, and others would take its run beside it."""
    monkeypatch.setattr(engine, "UNWIND_S", 0.05)
    hw, begun = Headway(url, stop_wait_s=0), list[str]()

    @hw.job()
    async def work(ctx: RunContext) -> None:
        begun.append(ctx.key)
        await asyncio.Event().wait()

    leave = engine.Engine._deregister
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as writing:

        async def answered_now(self: engine.Engine) -> None:
            writing.rollback()
            await leave(self)

        monkeypatch.setattr(engine.Engine, "_leave", answered_now)
        async with asyncio.TaskGroup() as group, hw:
            writing.execute("BEGIN IMMEDIATE")
            submit = Submit(run_id=RunId("late"), key=Key("ann"), job="work")
            group.create_task(hw.store.apply(submit))
            await asyncio.sleep(0)
    assert begun == []
    async with looked_at(url) as store:
        (record,) = await records(store)
        assert (record.run.generation, record.run.death_count) == (1, 0)
        assert (record.run.instance_id, record.run.is_parked) == (None, False)
        assert await store.runs.instances() == []
