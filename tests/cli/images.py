"""Draw the terminal images of the README: `python -m tests.cli.images [FOLDER]`.

Real commands run in a pseudo-terminal, against a real server that executes real runs.
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
from tests.api.conftest import served_in_this_loop
from tests.cli.command import command, environment

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images"
WIDTH: Final = 104
PHOTO_COUNT: Final = 120
# The escape sequences with which a live display erases its last frame.
ERASED: Final = re.compile(r"\r?(?:\x1b\[2K|\x1b\[1A)+|\x1b\[\?25[lh]")
# Removed, so that a viewer of the image fetches no font.
FONT_FACE: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def register(hw: Headway) -> None:
    @hw.job(lane="accounts")
    async def mirror(ctx: RunContext, url: str) -> None:
        await ctx.log(f"reading {url}")
        for page in range(1, 5):
            await ctx.log(f"page {page}: 12 photos")
            await ctx.progress(downloaded=12 * page - 5, of=PHOTO_COUNT, skipped=3, filtered=2)
        await asyncio.Event().wait()

    @hw.job(lane="agents")
    async def agent(ctx: RunContext) -> None:
        """Never runs, because its lane is paused."""


async def draw(folder: Path) -> None:
    """Write `terminal-watch.svg`, `terminal-lanes.svg` and `terminal-explain.svg`."""
    with tempfile.TemporaryDirectory() as directory:
        hw = Headway(f"sqlite:///{directory}/headway.db", data=f"{directory}/data", stop_wait_s=0)
        register(hw)
        async with hw, served_in_this_loop(hw) as address:
            await hw.lanes.set("accounts", max_concurrent=3, max_queued=100)
            await hw.lanes.set("agents", max_concurrent=2, is_paused=True)
            runs = [
                await hw.start("mirror", key=key, params={"url": f"https://example.org/{key}"})
                for key in ("ann", "bob", "cem", "dan", "eve")
            ]
            await hw.start("agent", key="ann-chat")
            for name, arguments, last_text in (
                ("watch", ("run", "watch", runs[0].id), "page 4"),
                ("lanes", ("lane", "list"), None),
                ("explain", ("run", "explain", runs[-1].id), None),
            ):
                screen = await asyncio.to_thread(capture_screen, arguments, address, last_text)
                write(folder / f"terminal-{name}.svg", arguments, screen)


def capture_screen(arguments: tuple[str, ...], address: str, last_text: str | None) -> str:
    """Return the last frame that a command shows, or the last one that contains `last_text`."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(*arguments),
        env=environment(HEADWAY_URL=address, COLUMNS=str(WIDTH), TERM="xterm-256color"),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        output = ""
        while last_text is None or last_text not in ERASED.split(output)[-2:][0]:
            try:
                output += os.read(ours, 65_536).decode()
            except OSError:  # A pseudo-terminal raises EIO once its last process has exited.
                break
        process.send_signal(signal.SIGINT)
    os.close(ours)
    frames = [frame for frame in ERASED.split(output) if frame.strip()]
    if last_text is None:
        return frames[-1]
    return next(frame for frame in reversed(frames) if last_text in frame)


def write(path: Path, arguments: tuple[str, ...], screen: str) -> None:
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text.from_ansi(screen.replace("\r", "")))
    title = " ".join(("headway", *arguments))
    svg = console.export_svg(title=title, unique_id=path.stem)
    path.write_text(FONT_FACE.sub("", svg), encoding="utf-8")
    console.file.close()


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
