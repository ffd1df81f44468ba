"""Reads of the table of stored files."""

from collections.abc import Sequence
from typing import Protocol

from headway.core.ids import Key, RunId
from headway.core.stored_file import StoredFile


class FileReader(Protocol):
    async def ended_runs(self, run_ids: Sequence[RunId]) -> Sequence[RunId]:
        """Return the ids in `run_ids` whose runs have ended."""
        ...

    async def files_of_run(
        self, run_id: RunId, *, data_id: str, limit: int
    ) -> Sequence[StoredFile]: ...

    async def list_run_files(
        self, run_id: RunId, *, limit: int, after: str = ""
    ) -> Sequence[StoredFile]:
        """Return the run's files in all data directories, sorted by path. Begin after `after`."""
        ...

    async def files_by_part(
        self, run_id: RunId, *, data_id: str, parts: Sequence[str]
    ) -> Sequence[StoredFile]:
        """Return the run's files whose unfinished parts had one of the names in `parts`."""
        ...

    async def files_of_key(
        self, key: Key, *, data_id: str, limit: int, after: str = ""
    ) -> Sequence[StoredFile]:
        """Return the key's files in one data directory, sorted by path. Begin after `after`."""
        ...
