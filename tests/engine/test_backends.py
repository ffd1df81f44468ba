"""The engine on database servers: submit, run, settle, cancel, stop and resume."""

import asyncio

import pytest

from headway import Headway, RunContext, RunFailed
from headway.core.command.run.cancel import CancelResult
from headway.core.errors import KeyBusy


@pytest.mark.proves("R4.1")
@pytest.mark.parametrize("backend", ["postgres", "mariadb"])
async def test_engine_runs_cancels_and_resumes_on_a_database_server(database_url: str) -> None:
    hw, started = Headway(database_url, stop_wait_s=0), asyncio.Event()

    @hw.job()
    async def add(ctx: RunContext, left: int, right: int) -> int:
        await ctx.progress(seen=2)
        return left + right

    @hw.job()
    async def wait(ctx: RunContext, required_generation: int) -> str:
        if ctx.generation >= required_generation:
            return "done"
        started.set()
        await asyncio.Event().wait()
        return "never"

    async with hw:
        run = await hw.start("add", key="ann", params={"left": 2, "right": 3})
        assert await run.result() == 5
        waiting = await hw.start("wait", key="ann", params={"required_generation": 2})
        await started.wait()
        with pytest.raises(KeyBusy) as busy:
            await hw.start("add", key="ann", params={"left": 2, "right": 3})
        assert busy.value.active_run_id == waiting.id
        assert await waiting.cancel() is CancelResult.REQUESTED
        with pytest.raises(RunFailed, match="canceled"):
            await waiting.result()
        started.clear()
        released = await hw.start("wait", key="ann", params={"required_generation": 2})
        await started.wait()
    async with hw:
        assert await hw.run(released.id).result() == "done"
