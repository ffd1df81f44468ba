"""Checkpoints: Continue resumes from the last checkpoint; Start begins without one."""

from typing import Any

import pytest

from headway import Headway, RunContext, RunFailed
from headway.core.errors import InvalidInput

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("R1.1")
async def test_continue_resumes_from_the_last_checkpoint_and_start_does_not(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job()
    async def mirror(ctx: RunContext, fails_at: int | None = None) -> Any:
        initial_checkpoint = ctx.checkpoint
        page = 0 if initial_checkpoint is None else initial_checkpoint["page"]
        while page < 5:
            page += 1
            await ctx.save_checkpoint({"page": page})
            if page == fails_at:
                raise ConnectionError("the feed is gone")
        return [initial_checkpoint, ctx.checkpoint]

    async with hw:
        first = await hw.start("mirror", key="ann", params={"fails_at": 3})
        with pytest.raises(RunFailed, match="the feed is gone"):
            await first.result()
        second = await hw.continue_("mirror", key="ann")
        assert await second.result() == [{"page": 3}, {"page": 5}]
        record = await second.record()
        assert (record.run.mode, record.run.continued_from) == ("continue", first.id)
        assert await (await hw.start("mirror", key="ann")).result() == [None, {"page": 5}]
        assert await (await hw.continue_("mirror", key="bob")).result() == [None, {"page": 5}]


@pytest.mark.proves("I15")
async def test_a_checkpoint_that_is_not_json_is_refused_and_the_last_one_remains(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> Any:
        await ctx.save_checkpoint({"page": 1})
        with pytest.raises(InvalidInput, match=r"checkpoint\.page"):
            await ctx.save_checkpoint({"page": {2}})
        return ctx.checkpoint

    async with hw:
        run = await hw.start("work", key="ann")
        assert await run.result() == {"page": 1}
        assert (await run.record()).checkpoint == '{"page":1}'
