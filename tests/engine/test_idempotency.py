"""I6: what a caller has said makes the request, not what the program fills in for it."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from headway import Headway, IdempotencyConflict, RunContext

pytestmark = pytest.mark.backend("sqlite-file")


async def shallow(ctx: RunContext, url: str = "a", depth: int = 1) -> None:
    """As it was."""


async def deep(ctx: RunContext, url: str = "b", depth: int = 2) -> None:
    """As a newer program has it."""


async def started(
    url: str, function: Callable[..., Any], said: dict[str, Any], **options: Any
) -> str:
    """The run, as a program with such a job answers."""
    hw = Headway(url)
    hw.job(name="mirror", **options)(function)
    async with hw:
        return (await hw.start("mirror", idempotency_key="once", **said)).id


@pytest.mark.proves("I6")
@pytest.mark.parametrize(
    "said", [{}, {"params": {}}, {"key": "ann", "params": {"url": "x"}}], ids=str
)
async def test_a_request_is_the_same_after_defaults_and_lane_have_changed(
    url: str, said: dict[str, Any]
) -> None:
    first = await started(url, shallow, said)
    assert await started(url, deep, said) == first
    assert await started(url, shallow, said, lane="other") == first
    assert await started(url, shallow, said, concurrency=2, timeout_s=5.0) == first


@pytest.mark.proves("I6")
async def test_to_say_what_is_the_default_is_another_request(url: str) -> None:
    said = {"params": {"url": "x"}}
    await started(url, shallow, said)
    for other in (
        {"params": {"url": "x", "depth": 1}},
        {"params": {"url": "y"}},
        {**said, "lane": "main"},
        {**said, "key": "ann"},
    ):
        with pytest.raises(IdempotencyConflict):
            await started(url, shallow, other)


@pytest.mark.proves("I6")
async def test_a_secret_that_is_only_said_to_be_set_is_the_same_whatever_it_is(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job()
    async def fetch(ctx: RunContext, password: SecretStr) -> None:
        """Takes a secret."""

    said: dict[str, Any] = {"key": "ann", "params": {"password": {"secret": "set"}}}
    async with hw:
        await hw.keys.save("ann", job="fetch", params={"password": "old"})
        first = await hw.start("fetch", **said, idempotency_key="once")
        await first.result(10)
        await hw.keys.save("ann", job="fetch", params={"password": "new"})
        again = await hw.start("fetch", **said, idempotency_key="once")
        assert again.id == first.id
        said["params"] = {"password": "old"}
        with pytest.raises(IdempotencyConflict):
            await hw.start("fetch", **said, idempotency_key="once")
