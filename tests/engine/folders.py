"""Helpers for tests of files: they read the data directory and the ledger."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from headway.adapters.files.folder import DataFolder
from headway.adapters.sql.sql_store import SqlStore
from headway.core.ids import Key


def contents(tmp_path: Path, *, key: str = "ann") -> dict[str, str]:
    """Return the finished files of a key with their text."""
    return files_below(tmp_path / "data" / "keys" / key)


def parts(tmp_path: Path) -> list[str]:
    """Return the contents of `parts`: runs that are active or not cleaned up yet."""
    folder = tmp_path / "data" / "parts"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def archives(tmp_path: Path, *, key: str = "ann") -> list[Path]:
    return sorted((tmp_path / "data" / "archives" / key).glob("*"))


def files_below(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def modes(folder: Path) -> set[tuple[bool, int]]:
    """Return (is_dir, permission bits) of the folder and of everything below it."""
    paths = (folder, *folder.rglob("*"))
    return {(path.is_dir(), path.stat().st_mode & 0o777) for path in paths}


async def wait_until(is_true: Callable[[], bool]) -> None:
    """Poll until the condition is true. The test's own time limit ends the wait."""
    while not is_true():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def ledger(store: SqlStore, tmp_path: Path, *, key: str = "ann") -> dict[str, str]:
    """Return the paths in the ledger, each with the id of its run."""
    data_id = DataFolder(tmp_path / "data").data_id()
    files = await store.files.files_of_key(Key(key), data_id=data_id, limit=1_000)
    return {file.path: file.run_id for file in files}
