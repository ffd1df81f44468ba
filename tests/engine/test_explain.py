"""`Headway.explain` while runs are active."""

import asyncio

import pytest

from headway import Headway, RunContext
from headway.core.errors import RunNotFound
from headway.core.run.admission import OnConflict
from headway.core.run.explain import Gate

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("R1.12")
async def test_explain_reports_why_a_run_waits(url: str) -> None:
    hw, has_begun, release = Headway(url), asyncio.Event(), asyncio.Event()

    @hw.job()
    async def work(ctx: RunContext) -> None:
        has_begun.set()
        await release.wait()

    async with hw:
        first = await hw.start("work", key="ann")
        second = await hw.start("work", key="ann", on_conflict=OnConflict.ENQUEUE)
        await has_begun.wait()
        assert (await hw.explain(first.id)).gate is Gate.RUNNING
        explanation = await hw.explain(second.id)
        assert (explanation.gate, explanation.holder_ids, explanation.position) == (
            Gate.KEY,
            (first.id,),
            1,
        )
        release.set()
        await second.wait_for_end()
        assert (await hw.explain(second.id)).gate is Gate.ENDED


async def test_explain_of_a_missing_run_raises_an_error_that_names_its_id(url: str) -> None:
    async with Headway(url) as hw:
        with pytest.raises(RunNotFound, match="there is no run 'none'"):
            await hw.explain("none")
