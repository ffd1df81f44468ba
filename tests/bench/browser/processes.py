"""The memory of the processes that render a page, as the system counts it."""

import os
from pathlib import Path
from typing import Final

RENDERER: Final = b"--type=renderer"


def resident_byte_count(ancestor: int) -> int:
    """Return the memory of all renderers below this process, or 0 if it is unknown."""
    parents: dict[int, int] = {}
    renderers: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # It has ended meanwhile.
        pid = int(folder.name)
        parents[pid] = int(stat.rpartition(")")[2].split()[1])
        if RENDERER in command:
            renderers.append(pid)
    return sum(_resident(pid) for pid in renderers if _descends(pid, ancestor, parents))


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
