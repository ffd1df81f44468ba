"""What tests of files look at: the data directory beside the database, and the ledger."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from headway.adapters.files.folder import DataFolder
from headway.adapters.sql.sql_store import SqlStore
from headway.core.ids import Key


def contents(tmp_path: Path, *, key: str = "ann") -> dict[str, str]:
    """The finished files of a key."""
    return files_below(tmp_path / "data" / "keys" / key)


def parts(tmp_path: Path) -> list[str]:
    """All that is there of runs which are not over, or not tidied up after."""
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
    """Of the folder and all below it: whether it is one, and who may do what."""
    found = (folder, *folder.rglob("*"))
    return {(path.is_dir(), path.stat().st_mode & 0o777) for path in found}


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what nobody reports; the test's own time limit ends it."""
    while not is_so():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def ledger(store: SqlStore, tmp_path: Path, *, key: str = "ann") -> dict[str, str]:
    """The paths that the ledger knows, and whose they are."""
    data_id = DataFolder(tmp_path / "data").data_id()
    files = await store.files.files_of_key(Key(key), data_id=data_id, limit=1_000)
    return {file.path: file.run_id for file in files}
