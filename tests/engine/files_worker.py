"""Another process that writes files and kills itself with SIGKILL at a given point.

`python -m tests.engine.files_worker URL POINT` starts a run of `mirror` for the key `ann` and
prints its id. Most points are methods of the data directory, patched to kill the process.
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


def kill_self(*_: object, **__: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def headway_with_mirror(url: str) -> Headway:
    """Return a Headway whose job writes the missing files, and then blocks if `waits`."""
    hw = Headway(url, lease_ttl_s=0.5)

    @hw.job()
    async def mirror(
        ctx: RunContext, waits: bool = False, is_killed_in_part: bool = False
    ) -> list[str]:
        made: list[str] = []
        for path in PATHS:
            if not await ctx.has_file(path):
                async with ctx.file(path) as file:
                    await file.write(f"{path} by {ctx.run_id}".encode())
                    await file.flush()
                    if is_killed_in_part and ctx.generation == 1:
                        kill_self()
                made.append(path)
        await ctx.emit("made")
        if waits and ctx.generation == 1:
            await asyncio.Event().wait()
        return made

    return hw


def kill_after(method: Callable[..., Any]) -> Callable[..., Any]:
    def patched(*arguments: Any, **options: Any) -> Any:
        method(*arguments, **options)
        kill_self()

    return patched


def remove_half(data: DataFolder, key: Key, paths: Sequence[str]) -> None:
    _remove(data, key, paths[:1])
    kill_self()


def pack_half(descriptor: int, *_: object) -> None:
    os.write(descriptor, b"PK")
    kill_self()


_remove: Final = DataFolder.remove
POINTS: Final[dict[str, tuple[object, str, Callable[..., Any]]]] = {
    "entered": (DataFolder, "publish_part", kill_self),
    "renamed": (DataFolder, "publish_part", kill_after(DataFolder.publish_part)),
    "half removed": (DataFolder, "remove", remove_half),
    "removed": (DataFolder, "remove", kill_after(DataFolder.remove)),
    "half packed": (folder, "write_archive", pack_half),
    "packed": (DataFolder, "pack", kill_after(DataFolder.pack)),
}


async def main(url: str, point: str) -> None:
    if point in POINTS:
        setattr(*POINTS[point])
    existing = os.environ.get("TEST_EXISTING") or None
    is_canceled = "removed" in point and existing is None
    params = {"waits": is_canceled or point == "waits", "is_killed_in_part": point == "part"}
    async with headway_with_mirror(url) as hw:
        run = await hw.start("mirror", key="ann", params=params, on_existing_output=existing)
        print(run.id, flush=True)
        if point == "waits" or is_canceled:
            async for event in run.events():
                if event.type == "made":
                    break
        if point == "waits":
            kill_self()
        if is_canceled:
            await run.cancel(files="delete")
        await run.wait_for_end()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
