"""`python -m tests.cli.images [FOLDER]`: what commands show on a terminal, for the README.

Real commands in a pseudo-terminal, asked of a real server that executes real runs.
"""

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from headway import Headway, RunContext
from tests.api.conftest import served_here
from tests.cli.command import command, environment

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images"
WIDTH: Final = 104
PHOTO_COUNT: Final = 120
# How a live display takes back what it has drawn.
ERASED: Final = re.compile(r"\r?(?:\x1b\[2K|\x1b\[1A)+|\x1b\[\?25[lh]")
# Nobody's font is fetched by whoever looks at the image.
FONT_FACE: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def register(hw: Headway) -> None:
    @hw.job(lane="accounts")
    async def mirror(ctx: RunContext, url: str) -> None:
        await ctx.log(f"reads {url}")
        for page in range(1, 5):
            await ctx.log(f"page {page}: 12 photos")
            await ctx.progress(downloaded=12 * page - 5, of=PHOTO_COUNT, skipped=3, filtered=2)
        await asyncio.Event().wait()

    @hw.job(lane="agents")
    async def agent(ctx: RunContext) -> None:
        """Its lane is paused."""


async def draw(folder: Path) -> None:
    """Write `terminal-watch.svg`, `terminal-lanes.svg` and `terminal-explain.svg`."""
    with tempfile.TemporaryDirectory() as place:
        hw = Headway(f"sqlite:///{place}/headway.db", data=f"{place}/data", stop_wait_s=0)
        register(hw)
        async with hw, served_here(hw) as address:
            await hw.lanes.set("accounts", max_concurrent=3, max_queued=100)
            await hw.lanes.set("agents", max_concurrent=2, is_paused=True)
            runs = [
                await hw.start("mirror", key=key, params={"url": f"https://example.org/{key}"})
                for key in ("ann", "bob", "cem", "dan", "eve")
            ]
            await hw.start("agent", key="ann-chat")
            for name, words, last in (
                ("watch", ("run", "watch", runs[0].id), "page 4"),
                ("lanes", ("lane", "list"), None),
                ("explain", ("run", "explain", runs[-1].id), None),
            ):
                screen = await asyncio.to_thread(shown, words, address, last)
                write(folder / f"terminal-{name}.svg", words, screen)


def shown(words: tuple[str, ...], address: str, last: str | None) -> str:
    """What a command leaves on the terminal; with `last`, what it shows once that is there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(*words),
        env=environment(HEADWAY_URL=address, COLUMNS=str(WIDTH), TERM="xterm-256color"),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ) as showing:
        os.close(theirs)
        said = ""
        while last is None or last not in ERASED.split(said)[-2:][0]:
            try:
                said += os.read(ours, 65_536).decode()
            except OSError:  # It has ended: there is no other word for it on a terminal.
                break
        showing.send_signal(signal.SIGINT)
    os.close(ours)
    frames = [frame for frame in ERASED.split(said) if frame.strip()]
    return frames[-1] if last is None else next(one for one in reversed(frames) if last in one)


def write(path: Path, words: tuple[str, ...], screen: str) -> None:
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text.from_ansi(screen.replace("\r", "")))
    title = " ".join(("headway", *words))
    svg = console.export_svg(title=title, unique_id=path.stem)
    path.write_text(FONT_FACE.sub("", svg), encoding="utf-8")
    console.file.close()


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
