"""`headway demo`: five accounts, three at a time, one run each; on a throw-away database."""

import asyncio
import json
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from headway.app import Headway, RunHandle
from headway.core.errors import KeyBusy
from headway.core.run.run import RunRecord
from headway.core.run.status import row_word
from headway.services.context import RunContext

ACCOUNTS: Final = ("ann", "bob", "cem", "dot", "eve")
PAGE_COUNT: Final = 12
STYLES: Final = {"Queued": "yellow", "Running": "cyan", "Done": "green", "Cancelled": "magenta"}


async def mirror(ctx: RunContext, page_count: int) -> dict[str, int]:
    """Pretend to download pages; what it did is saved, so that Continue would go on from there."""
    state = ctx.checkpoint or {"page": 0}
    for page in range(state["page"] + 1, page_count + 1):
        await asyncio.sleep(random.uniform(0.05, 0.2))  # noqa: S311  # Nothing is at stake.
        await ctx.save_checkpoint({"page": page})
        await ctx.progress(downloaded=page, of=page_count)
    return {"pages": page_count}


async def demo() -> None:
    """Watch five accounts share three slots; a second start is refused, one run is cancelled."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="headway-demo-") as folder:
        hw = Headway(f"sqlite:///{Path(folder, 'demo.db')}")
        hw.job()(mirror)
        async with hw:
            runs = [
                await hw.start("mirror", key=name, params={"page_count": PAGE_COUNT})
                for name in ACCOUNTS
            ]
            try:
                await hw.start("mirror", key="ann", params={"page_count": PAGE_COUNT})
            except KeyBusy as refusal:
                console.print(f"a second start for ann is refused: {refusal}")
            async with _shown(console, runs):
                await asyncio.sleep(0.5)
                await runs[1].cancel(reason="changed my mind")
                await asyncio.gather(*(run.ended() for run in runs))
            page = await hw.store.events.events(after_seq=0, limit=1)
            console.print(f"{len(runs)} runs, {page.last_seq} events, nothing lost.")


@asynccontextmanager
async def _shown(console: Console, runs: Sequence[RunHandle]) -> AsyncIterator[None]:
    """Show the board while the body runs: live on a terminal, once at the end in a pipe."""
    if not sys.stdout.isatty():
        yield
        console.print(await _board(runs))
        return
    with Live(await _board(runs), console=console, refresh_per_second=10) as live:

        async def redraw() -> None:
            while True:  # Ends by cancellation only.
                await asyncio.sleep(0.1)
                live.update(await _board(runs))

        async with asyncio.TaskGroup() as group:
            drawing = group.create_task(redraw())
            try:
                yield
            finally:
                drawing.cancel()
        live.update(await _board(runs))


async def _board(runs: Sequence[RunHandle]) -> Table:
    table = Table(title="one run per account, three at a time", title_justify="left")
    for heading in ("account", "state", "progress", "run"):
        table.add_column(heading)
    for run in runs:
        table.add_row(*_row(await run.record()))
    return table


def _row(record: RunRecord) -> tuple[str, str, str, str]:
    run = record.run
    word = row_word(run.status, has_started=run.started_at is not None)
    style = STYLES.get(word, "white")
    return run.key, f"[{style}]{word}[/]", _bar(record.progress), run.id


def _bar(progress: str | None) -> str:
    done: int = 0 if progress is None else json.loads(progress)["downloaded"]
    return f"{'█' * done}{'░' * (PAGE_COUNT - done)} {done}/{PAGE_COUNT}"
