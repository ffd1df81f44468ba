"""Methods that accept the name of a job also accept its function."""

from collections.abc import Callable
from typing import Any

import pytest

from headway import BlockingRunContext, Headway, InvalidInput, RunContext

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.proves("R9.2")]


async def unregistered(ctx: RunContext) -> None:
    """A function that is not registered with any Headway."""


async def test_a_registered_function_identifies_its_job(url: str) -> None:
    hw = Headway(url)

    @hw.job(name="greeting")
    async def greet(ctx: RunContext, name: str = "you") -> str:
        return f"hello {name}"

    @hw.job
    def parent(ctx: BlockingRunContext) -> list[str]:
        return [ctx.call(greet), ctx.start(greet, params={"name": "bob"}).result()]

    @hw.job
    async def async_parent(ctx: RunContext) -> list[str]:
        child = await ctx.start(greet)
        return [await child.result(), await ctx.call(greet, params={"name": "eve"})]

    hw.schedule("0 0 1 1 *", job=greet)
    assert hw.schedules["greeting"].job == "greeting"
    assert hw.schema(greet) == hw.schema("greeting")
    async with hw:
        assert await (await hw.start(greet)).result() == "hello you"
        assert await (await hw.submit(greet, params={"name": "ann"})).result() == "hello ann"
        assert await (await hw.continue_(greet, key="k")).result() == "hello you"
        assert await (await hw.start(parent)).result() == ["hello you", "hello bob"]
        assert await (await hw.start(async_parent)).result() == ["hello you", "hello eve"]
        await hw.keys.save("k2", job=greet, params={"name": "kim"})
        assert await (await hw.start(greet, key="k2")).result() == "hello kim"


async def test_a_bound_method_identifies_its_job(url: str) -> None:
    class Greeter:
        async def greet(self, ctx: RunContext) -> str:
            return f"hello {ctx.key}"

    hw, greeter = Headway(url), Greeter()
    hw.job(greeter.greet)
    async with hw:
        assert await (await hw.start(greeter.greet, key="ann")).result() == "hello ann"


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        (
            unregistered,
            (
                "job: the function 'unregistered' is not registered with this Headway;"
                " add @hw.job to it, or name one of: "
            ),
        ),
        (len, "job: the function 'len' is not registered with this Headway"),
        (None, "job must be a job's name or its function, not NoneType"),
        (7, "job must be a job's name or its function, not int"),
    ],
)
async def test_an_unknown_job_is_refused_with_a_reason(url: str, job: Any, problem: str) -> None:
    hw = Headway(url)

    async def twice(ctx: RunContext) -> None: ...

    hw.job(twice)
    hw.job(name="first")(twice)
    hw.job(name="second")(twice)

    def schedule() -> None:
        hw.schedule("0 0 1 1 *", job=job)

    calls: list[Callable[[], Any]] = [schedule, lambda: hw.schema(job)]
    for call in calls:
        with pytest.raises(InvalidInput) as refused:
            call()
        assert str(refused.value).startswith(problem)
    async with hw:
        for start in (hw.start, hw.submit, hw.continue_):
            with pytest.raises(InvalidInput) as refused:
                await start(job, key="k")
            assert str(refused.value).startswith(problem)
        with pytest.raises(InvalidInput) as refused:
            await hw.start(twice)
        assert str(refused.value) == (
            "job: the function 'twice' is registered several times;"
            " name one of: first, second, twice"
        )
