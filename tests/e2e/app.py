"""The jobs that the page's tests serve. A test controls them by messages."""

import asyncio
from typing import Any, Literal

from pydantic import SecretStr

from headway import Headway, RunContext
from tests.e2e.work import is_open

hw = Headway(stop_wait_s=0)


async def _stay(gate: str) -> None:
    try:
        await asyncio.sleep(3_600)
    finally:
        while not is_open(gate):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def _read_messages(ctx: RunContext) -> list[Any]:
    """Return the messages since the last call; wait until there is at least one."""
    while not (messages := await ctx.messages()):
        await ctx.sleep(0.02)
    return messages


@hw.job
async def mirror(
    ctx: RunContext,
    *,
    url: str,
    kinds: list[str] = ["jpg", "mp4"],  # noqa: B006  # It is copied.
    quality: Literal["original", "large", "small"] = "original",
    page_max: int = 50,
    with_stories: bool = False,
    since: str | None = None,
    cookie: SecretStr | None = None,
) -> dict[str, Any]:
    """Report progress, log and end as the messages demand.

    `{"downloaded": 3, …}` is progress, a text is a log line, and `end` ends the run. After
    `{"stay": "a path"}` a cancel ends it only once there is a file at the path.
    """
    figures: dict[str, int] = {"downloaded": 0, "skipped": 0, "filtered": 0}
    while True:
        for message in await _read_messages(ctx):
            match message:
                case {"file": str(path)}:
                    async with ctx.file(path) as file:
                        await file.write(b"a picture")
                case {"stay": str(path)}:
                    await ctx.progress(**figures, staying=True)
                    await _stay(path)
                case {"fail": str(reason)}:
                    raise ValueError(reason)
                case {"log": str(line), "level": str(level)}:
                    await ctx.log(line, level=level)
                case dict():
                    figures |= message
                    await ctx.progress(**figures)
                case "cookie":
                    await ctx.log(f"{len(cookie.get_secret_value()) if cookie else 0} characters")
                case "end":
                    return {**figures, "folder": "photos"}
                case _:
                    await ctx.log(str(message))


@hw.job(lane="agents")
async def agent(ctx: RunContext, goal: str, model: str = "small") -> Any:
    """Ask the question of a message, and return the answer."""
    [question, *_] = await _read_messages(ctx)
    if isinstance(question, dict) and "ask" in question:  # With a schema, a default, a timeout.
        how: dict[str, Any] = {**question}
        return await ctx.interrupt(how.pop("ask"), **how)
    return await ctx.interrupt(question)


@hw.job
async def ignore(ctx: RunContext) -> None:
    """Read no messages, and end when there is a file at the path that is the run's key."""
    while not is_open(ctx.key):  # noqa: ASYNC110
        await asyncio.sleep(0.02)


@hw.job
async def say(ctx: RunContext, said: Any = None) -> Any:
    if isinstance(said, str):
        await ctx.log(said)
    return said


@hw.job
async def recite(ctx: RunContext, said: list[str]) -> list[str]:
    for line in said:
        await ctx.log(line)
    return said


@hw.flows.function
def price(order: Any, params: dict[str, Any]) -> Any:
    """Return the price of an order. An order that is too large fails."""
    if order["count"] > 1_000:
        raise ValueError(f"nobody has {order['count']} of them")
    return {"total": order["count"] * params.get("each", 1)}
