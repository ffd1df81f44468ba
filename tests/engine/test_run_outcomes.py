"""The outcomes of a run: success, failure, and refusal before anything is stored."""

import asyncio
from typing import Any

import pytest

from headway import Headway, RunContext, RunFailed
from headway.core.errors import InvalidInput
from headway.core.run.status import RunStatus
from tests.engine.scenes import records_of

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("R1.1")
async def test_a_run_receives_its_parameters_and_returns_its_result(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def add(ctx: RunContext, left: int, right: int) -> dict[str, Any]:
        await ctx.progress(seen=2)
        return {"sum": left + right, "key": ctx.key, "run_id": ctx.run_id}

    async with hw:
        run = await hw.start("add", key=" ann ", params={"left": 2, "right": 3})
        assert await run.result() == {"sum": 5, "key": "ann", "run_id": run.id}
        assert await run.result() == {"sum": 5, "key": "ann", "run_id": run.id}
        record = await run.record()
    assert record.run.status is RunStatus.SUCCEEDED
    assert (record.run.mode, record.run.generation) == ("start", 1)
    assert (record.params, record.progress) == ('{"left":2,"right":3}', '{"seen":2}')
    assert record.run.queued_at <= (record.run.started_at or 0) <= (record.run.ended_at or 0)


@pytest.mark.proves("R1.1")
async def test_a_run_without_a_key_uses_its_id_as_its_key(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> str:
        return ctx.key

    async with hw:
        runs = [await hw.start("work") for _ in range(3)]
        assert [await run.result() for run in runs] == [run.id for run in runs]


@pytest.mark.proves("R2.1")
async def test_a_job_that_raises_fails_its_run_with_its_message(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        raise ValueError("the feed is gone")

    async with hw:
        run = await hw.start("work", key="ann")
        with pytest.raises(RunFailed, match="failed: ValueError: the feed is gone") as failed:
            await run.result()
        # A failure frees the key like any other end.
        await (await hw.start("work", key="ann")).wait_for_end()
    assert failed.value.run_id == run.id
    assert failed.value.status is RunStatus.FAILED
    assert failed.value.error == {"code": "error", "message": "ValueError: the feed is gone"}


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("message", "stored"),
    [
        ("a\0b\ud800", "Exception: a\N{REPLACEMENT CHARACTER}b?"),
        ("x" * 10_000, "Exception: " + "x" * (4_000 - len("Exception: "))),
        ("", "Exception"),
    ],
)
async def test_the_message_of_a_failed_job_is_made_storable(
    url: str, message: str, stored: str, caplog: pytest.LogCaptureFixture
) -> None:
    # pytest-xdist cannot report a captured log line with a lone surrogate.
    caplog.set_level("CRITICAL", logger="headway.services.engine.execute")
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        raise Exception(message)  # noqa: TRY002

    async with hw:
        with pytest.raises(RunFailed) as failed:
            await (await hw.start("work")).result()
    assert failed.value.error["message"] == stored


@pytest.mark.proves("R2.1")
async def test_a_cancelled_future_inside_a_job_is_a_failure(url: str) -> None:
    """The run was not canceled; only a future that the job awaits was."""
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with hw:
        with pytest.raises(RunFailed, match="failed: CancelledError"):
            await (await hw.start("work")).result()


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"when": {1, 2}}, "result.when is of type set, which JSON cannot represent"),
        ({"ratio": [1.0, float("nan")]}, "result.ratio[1] is not a finite number"),
    ],
)
async def test_a_result_that_is_not_json_fails_the_run_and_names_the_field(
    url: str, result: Any, message: str
) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> Any:
        return result

    async with hw:
        with pytest.raises(RunFailed) as failed:
            await (await hw.start("work")).result()
    assert failed.value.error == {"code": "invalid_result", "message": message}


@pytest.mark.proves("I15")
async def test_progress_that_is_not_json_raises_an_error_in_the_job(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        await ctx.progress(when=object())

    async with hw:
        with pytest.raises(RunFailed, match=r"progress\.when is of type object") as failed:
            await (await hw.start("work")).result()
    assert failed.value.error["code"] == "error"


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"since": {1}}, "params.since"),
        ({"a": [{"b": float("inf")}]}, "params.a[0].b"),
        ({"text": "\0"}, "params.text"),
        (["left", "right"], "params"),
    ],
)
async def test_parameters_that_are_not_json_are_refused_and_nothing_is_written(
    url: str, params: Any, field: str
) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        """Never called."""

    async with hw:
        with pytest.raises(InvalidInput) as refused:
            await hw.start("work", params=params)
        assert await records_of(hw) == []
    assert refused.value.field == field


@pytest.mark.proves("I15")
async def test_an_unregistered_job_is_refused_with_the_registered_names(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job()
    async def mirror(ctx: RunContext) -> None:
        """Never called."""

    async with hw:
        with pytest.raises(
            InvalidInput, match=r"job 'miror' is not registered; registered jobs: mirror"
        ):
            await hw.start("miror")
        assert await records_of(hw) == []


@pytest.mark.proves("I15")
async def test_a_run_fails_with_a_reason_if_the_parameters_of_its_job_have_changed(
    url: str,
) -> None:
    async def work(ctx: RunContext, pages: int) -> None:
        await asyncio.Event().wait()

    hw = Headway(url, stop_wait_s=0)
    hw.job()(work)
    async with hw:
        run = await hw.start("work", params={"pages": 1})

    async def changed(ctx: RunContext, page_count: int) -> None:
        """Never called."""

    hw = Headway(url)
    hw.job(name="work")(changed)
    async with hw:
        with pytest.raises(RunFailed) as failed:
            await hw.run(run.id).result()
    assert failed.value.error == {
        "code": "invalid_params",
        "message": (
            "params.pages is not a parameter of the job; it takes: page_count;"
            " params.page_count is missing"
        ),
    }


@pytest.mark.proves("I15")
def test_a_job_cannot_be_registered_twice(url: str) -> None:
    hw = Headway(url)

    async def work(ctx: RunContext) -> None:
        """Never called."""

    hw.job()(work)
    with pytest.raises(InvalidInput, match="'work' is registered twice"):
        hw.job()(work)


async def test_headway_must_be_open_and_cannot_be_opened_twice(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> str:
        return "done"

    with pytest.raises(RuntimeError, match="async with"):
        await hw.start("work")
    async with hw:
        with pytest.raises(RuntimeError, match="already open"):
            await hw.__aenter__()
        assert await (await hw.start("work")).result() == "done"
    async with hw:
        assert await (await hw.start("work")).result() == "done"
