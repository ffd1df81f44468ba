"""The ledger of files, as it can be read."""

from collections.abc import Sequence
from typing import Protocol

from headway.core.ids import Key, RunId
from headway.core.stored_file import StoredFile


class FileReader(Protocol):
    async def ended_runs(self, run_ids: Sequence[RunId]) -> Sequence[RunId]:
        """Those of them that are over."""
        ...

    async def files_of_run(
        self, run_id: RunId, *, data_id: str, limit: int
    ) -> Sequence[StoredFile]: ...

    async def list_run_files(
        self, run_id: RunId, *, limit: int, after: str = ""
    ) -> Sequence[StoredFile]:
        """In whatever data directory: by path, from the one after `after` on."""
        ...

    async def files_by_part(
        self, run_id: RunId, *, data_id: str, parts: Sequence[str]
    ) -> Sequence[StoredFile]:
        """Those of the run that had one of these names before they were whole."""
        ...

    async def files_of_key(
        self, key: Key, *, data_id: str, limit: int, after: str = ""
    ) -> Sequence[StoredFile]:
        """By path, from the one after `after` on."""
        ...
