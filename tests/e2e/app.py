"""What the page's tests serve: jobs that do what the test tells them, by messages."""

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


async def _told(ctx: RunContext) -> list[Any]:
    """What the test has said since the last look; at least one thing."""
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
    """`{"downloaded": 3, …}` is progress, a text a line of the log, `end` the end.

    After `{"stay": "a path"}` a cancel ends it only when there is a file at the path.
    """
    figures: dict[str, int] = {"downloaded": 0, "skipped": 0, "filtered": 0}
    while True:
        for message in await _told(ctx):
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
    """Asks what it is told to ask, and gives the answer back."""
    [question, *_] = await _told(ctx)
    if isinstance(question, dict) and "ask" in question:  # With a schema, a default, a time.
        how: dict[str, Any] = {**question}
        return await ctx.interrupt(how.pop("ask"), **how)
    return await ctx.interrupt(question)


@hw.job
async def ignore(ctx: RunContext) -> None:
    """Reads no messages, and ends when there is a file at the path that is its key."""
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
    """What the order costs; one that is too large fails."""
    if order["count"] > 1_000:
        raise ValueError(f"nobody has {order['count']} of them")
    return {"total": order["count"] * params.get("each", 1)}
