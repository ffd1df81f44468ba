"""A request is identified by what the caller passed, not by filled-in defaults (I6)."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from headway import Headway, IdempotencyConflict, RunContext

pytestmark = pytest.mark.backend("sqlite-file")


async def shallow(ctx: RunContext, url: str = "a", depth: int = 1) -> None:
    """The original job."""


async def deep(ctx: RunContext, url: str = "b", depth: int = 2) -> None:
    """The same job in a newer program."""


async def start_run(
    url: str, function: Callable[..., Any], arguments: dict[str, Any], **options: Any
) -> str:
    """Start the job in a program with that function. Return the run id."""
    hw = Headway(url)
    hw.job(name="mirror", **options)(function)
    async with hw:
        return (await hw.start("mirror", idempotency_key="once", **arguments)).id


@pytest.mark.proves("I6")
@pytest.mark.parametrize(
    "arguments", [{}, {"params": {}}, {"key": "ann", "params": {"url": "x"}}], ids=str
)
async def test_a_request_stays_the_same_if_the_defaults_or_the_lane_of_its_job_change(
    url: str, arguments: dict[str, Any]
) -> None:
    first = await start_run(url, shallow, arguments)
    assert await start_run(url, deep, arguments) == first
    assert await start_run(url, shallow, arguments, lane="other") == first
    assert await start_run(url, shallow, arguments, concurrency=2, timeout_s=5.0) == first


@pytest.mark.proves("I6")
async def test_a_request_that_passes_a_default_explicitly_is_a_different_request(url: str) -> None:
    arguments = {"params": {"url": "x"}}
    await start_run(url, shallow, arguments)
    for other in (
        {"params": {"url": "x", "depth": 1}},
        {"params": {"url": "y"}},
        {**arguments, "lane": "main"},
        {**arguments, "key": "ann"},
    ):
        with pytest.raises(IdempotencyConflict):
            await start_run(url, shallow, other)


@pytest.mark.proves("I6")
async def test_a_repeated_request_matches_even_if_the_saved_secret_has_changed(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job()
    async def fetch(ctx: RunContext, password: SecretStr) -> None:
        """Takes a secret."""

    arguments: dict[str, Any] = {"key": "ann", "params": {"password": {"secret": "set"}}}
    async with hw:
        await hw.keys.save("ann", job="fetch", params={"password": "old"})
        first = await hw.start("fetch", **arguments, idempotency_key="once")
        await first.result(10)
        await hw.keys.save("ann", job="fetch", params={"password": "new"})
        again = await hw.start("fetch", **arguments, idempotency_key="once")
        assert again.id == first.id
        arguments["params"] = {"password": "old"}
        with pytest.raises(IdempotencyConflict):
            await hw.start("fetch", **arguments, idempotency_key="once")
