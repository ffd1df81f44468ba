"""Another process that works with files and is killed at a given point, as only SIGKILL does.

`python -m tests.engine.files_worker URL POINT` starts a run of `mirror` for the key `ann` and
prints its id. Most points are methods of the data directory that it does not survive.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from headway import Headway, RunContext
from headway.adapters.files import folder
from headway.adapters.files.folder import DataFolder
from headway.core.ids import Key

PATHS: Final = ("a/1.txt", "a/2.txt", "b/3.txt")


def die(*_: object, **__: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def headway_with_mirror(url: str) -> Headway:
    """A job that makes the files which are not there, and then waits if it is told so."""
    hw = Headway(url, lease_ttl_s=0.5)

    @hw.job()
    async def mirror(ctx: RunContext, waits: bool = False, dies_in_part: bool = False) -> list[str]:
        made: list[str] = []
        for path in PATHS:
            if not await ctx.has_file(path):
                async with ctx.file(path) as file:
                    await file.write(f"{path} by {ctx.run_id}".encode())
                    await file.flush()
                    if dies_in_part and ctx.generation == 1:
                        die()
                made.append(path)
        await ctx.emit("made")
        if waits and ctx.generation == 1:
            await asyncio.Event().wait()
        return made

    return hw


def after(method: Callable[..., Any]) -> Callable[..., Any]:
    def patched(*arguments: Any, **named: Any) -> Any:
        method(*arguments, **named)
        die()

    return patched


def half_removed(data: DataFolder, key: Key, paths: Sequence[str]) -> None:
    _remove(data, key, paths[:1])
    die()


def half_packed(descriptor: int, *_: object) -> None:
    os.write(descriptor, b"PK")
    die()


_remove: Final = DataFolder.remove
POINTS: Final[dict[str, tuple[object, str, Callable[..., Any]]]] = {
    "entered": (DataFolder, "place", die),
    "renamed": (DataFolder, "place", after(DataFolder.publish_part)),
    "half removed": (DataFolder, "remove", half_removed),
    "removed": (DataFolder, "remove", after(DataFolder.remove)),
    "half packed": (folder, "write_archive", half_packed),
    "packed": (DataFolder, "pack", after(DataFolder.pack)),
}


async def main(url: str, point: str) -> None:
    if point in POINTS:
        setattr(*POINTS[point])
    existing = os.environ.get("TEST_EXISTING") or None
    is_cancelled = "removed" in point and existing is None
    params = {"waits": is_cancelled or point == "waits", "dies_in_part": point == "part"}
    async with headway_with_mirror(url) as hw:
        run = await hw.start("mirror", key="ann", params=params, on_existing_output=existing)
        print(run.id, flush=True)
        if point == "waits" or is_cancelled:
            async for event in run.events():
                if event.type == "made":
                    break
        if point == "waits":
            die()
        if is_cancelled:
            await run.cancel(files="delete")
        await run.wait_for_end()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
