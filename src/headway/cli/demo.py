"""`headway demo`: five accounts, three at a time, one run each; on a throw-away database."""

import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from headway.app import Headway
from headway.core.errors import KeyBusy
from headway.core.run.run import RunRecord
from headway.core.run.status import row_word
from headway.services.context import RunContext
from headway.services.handle import RunHandle

ACCOUNTS: Final = ("ann", "bob", "cem", "dot", "eve")
PAGE_COUNT: Final = 12
PIPE_WIDTH: Final = 120
# Narrower than this, the board is without the ids of the runs; and then without bars.
IDS_WIDTH_MIN: Final = 90
BARS_WIDTH_MIN: Final = 50
REDRAW_S: Final = 0.1
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
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
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
            # On a terminal it lives; in a pipe it is printed once, at the end.
            with Live(console=console) as live:
                await _show(live, runs, until=lambda records: _page(records[1]) >= 3)
                await runs[1].cancel(reason="to show what that looks like")
                await _show(live, runs, until=_have_ended)
            if not console.is_terminal:  # There the board has not ended its last line.
                console.print()
            console.print("bob's run was cancelled on purpose, to show what that looks like.")
            page = await hw.store.events.events(after_seq=0, limit=1)
            console.print(f"{len(runs)} runs, {page.last_seq} events, nothing lost.")


async def _show(
    live: Live, runs: Sequence[RunHandle], *, until: Callable[[Sequence[RunRecord]], bool]
) -> None:
    """Keep the board up to date until its records are as wanted."""
    while True:  # The runs have an end, so this has one.
        records = [await run.record() for run in runs]
        live.update(_board(records, live.console))
        if until(records):
            return
        await asyncio.sleep(REDRAW_S)


def _have_ended(records: Sequence[RunRecord]) -> bool:
    return not any(record.run.is_active for record in records)


def _board(records: Sequence[RunRecord], console: Console) -> Table:
    has_ids = console.width >= IDS_WIDTH_MIN
    table = Table(title="one run per account, three at a time", title_justify="left")
    for heading in ("account", "state", "progress", "run")[: 4 if has_ids else 3]:
        table.add_column(heading)
    for record in records:
        run = record.run
        word = row_word(run.status, has_started=run.started_at is not None)
        state = f"[{STYLES.get(word, 'white')}]{word}[/]"
        table.add_row(run.key, state, _progress(record, console), *([run.id] if has_ids else []))
    return table


def _progress(record: RunRecord, console: Console) -> str:
    done = _page(record)
    figures = f"{done}/{PAGE_COUNT}"
    if console.width < BARS_WIDTH_MIN:
        return figures
    full, empty = "#." if console.options.ascii_only else "█░"
    return f"{full * done}{empty * (PAGE_COUNT - done)} {figures}"


def _page(record: RunRecord) -> int:
    return 0 if record.progress is None else int(json.loads(record.progress)["downloaded"])
