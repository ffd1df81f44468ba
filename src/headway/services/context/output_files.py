"""The output files of runs, and their clean-up.

A file is written as a `.part` in the run's own folder, then recorded in the ledger (a table in the
database) under the claim, then renamed to its final path. A crash before the record is written
leaves a `.part` without a record, which is removed. A later crash leaves a `.part` with a record,
which is renamed. This recovery takes place in the next execution of the run, at the end of the run,
or in the sweep of any instance with the same data folder. The ledger therefore contains every
finished file, and a file that was written under a stale claim never gets its final name.

Files are removed only under an exclusive lock on the folder of the key. The folder with the parts
of a run is removed last, because its presence makes a sweep notice an interrupted clean-up.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from headway.core.command.run.record_files import ConfirmOutputPrepared, RemoveFileRecords
from headway.core.errors import InvalidInput, RunNotActive
from headway.core.ids import Key, RunId
from headway.core.run.run import OnExistingOutput
from headway.core.run.status import RunStatus
from headway.core.stored_file import StoredFile
from headway.log import event_log
from headway.ports.file_folder import FileFolder
from headway.ports.file_reader import FileReader
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.blocking_calls import Threads
from headway.services.context.execution import Execution
from headway.services.retrying import retry_until_available

BATCH_SIZE: Final = 500
LOCK_RETRY_S: Final = 0.05

log = event_log(__name__)


class Output:
    """The files of all runs in one data directory."""

    def __init__(
        self, store: Store, runs: RunReader, files: FileReader, folder: FileFolder
    ) -> None:
        self.store = store
        self.folder = folder
        self.threads = Threads()
        """The threads that write, rename and remove files."""
        self._runs = runs
        self._files = files
        self.open_runs: dict[RunId, Key] = {}
        """The key of each run of this process that may have open files."""
        self._last_swept_id = RunId("")
        """The run after which the next sweep continues. Empty if the last sweep was complete."""

    async def prepare(self, execution: Execution) -> None:
        """Archive or remove the earlier output of the run's key, before the job begins.

        The run's submission decides whether to archive or to remove. After a crash the preparation
        is repeated until it is confirmed in the database, and never after that. Raise RunNotActive
        if the claim is stale.
        """
        claimed = execution.claimed
        async with self._hold_key(claimed.key):
            # Check again under the lock: a later claim may have prepared the output already, and
            # its job may be writing files.
            record = await self._runs.run(claimed.run_id)
            if (
                record is None
                or record.run.token != claimed.token
                or not record.run.on_existing_output
            ):
                raise RunNotActive(claimed.run_id)
            if claimed.on_existing_output == OnExistingOutput.ARCHIVE:
                await self._archive(execution)
            while files := await self._files_of_key(claimed.key):
                await self._remove(files)
        confirm = ConfirmOutputPrepared(execution.claim)
        if not await retry_until_available(lambda: self.store.apply(confirm)):
            raise RunNotActive(claimed.run_id)

    async def _archive(self, execution: Execution) -> None:
        claimed = execution.claimed
        if self.folder.has_archive(claimed.key, claimed.run_id):
            return  # An earlier execution completed this step.
        paths: list[str] = []
        while files := await self._files_of_key(claimed.key, after=paths[-1] if paths else ""):
            paths += [file.path for file in files]
        if paths:
            await self.threads.run(
                self.folder.pack,
                claimed.key,
                paths,
                run_id=claimed.run_id,
                part=part_name(claimed.generation, 0, "archive"),
                should_stop=lambda: execution.ending is not None,
            )
            if not self.folder.has_archive(claimed.key, claimed.run_id):
                raise asyncio.CancelledError  # Packing was stopped, so no file may be removed.

    async def recover(self, run_id: RunId, *, up_to_generation: int | None = None) -> None:
        """Rename or remove the parts that executions of a run left, up to `up_to_generation`.

        `up_to_generation=None` means all executions of the run.
        """
        parts = [
            part
            for part in self.folder.parts(run_id)
            if up_to_generation is None or parse_generation(part) <= up_to_generation
        ]
        for first in range(0, len(parts), BATCH_SIZE):
            await self._recover(run_id, parts[first : first + BATCH_SIZE])

    async def _recover(self, run_id: RunId, parts: Sequence[str]) -> None:
        data_id = self.folder.data_id()
        files = await self._files.files_by_part(run_id, data_id=data_id, parts=parts)
        for file in files:
            await self._rename_part(run_id, file)
        for part in set(parts) - {file.part for file in files}:
            self.folder.drop_part(run_id, part)

    async def _rename_part(self, run_id: RunId, file: StoredFile) -> None:
        try:
            await self.threads.run(self.folder.publish_part, run_id, file.part, file.key, file.path)
        except InvalidInput as error:  # A folder was created at the path in the meantime.
            log.warning("file_rename_refused", extra={"run_id": run_id, "reason": str(error)})
            await self._drop([file])
            self.folder.drop_part(run_id, file.part)

    async def delete_if_requested(self, run_id: RunId, *, is_over: bool) -> None:
        """Remove the files of a canceled run if its cancel requested that.

        `is_over` is True if the run has ended already, and False if it is still cancelling.
        """
        record = await self._runs.run(run_id)
        status = RunStatus.CANCELED if is_over else RunStatus.CANCELLING
        if record is not None and record.run.status is status and record.run.delete_files_on_cancel:
            await self._delete(run_id, record.run.key)

    async def clean_up_key(self, key: Key, *, except_run_id: RunId) -> None:
        """Finish the clean-up of the key's earlier runs before a new run writes files.

        Otherwise a part of an earlier run could be renamed later and replace a newer file.
        """
        for run_id in self.folder.run_ids():
            if run_id != except_run_id and self.open_runs.get(run_id, key) == key:
                record = await self._runs.run(run_id)
                if record is not None and record.run.key == key and not record.run.is_active:
                    await self.recover(run_id)
                    await self.delete_if_requested(run_id, is_over=True)

    async def clean_up(self, run_id: RunId) -> None:
        """Recover or delete the files of an ended run, unless a process holds its folder."""
        record = await self._runs.run(run_id)
        if record is None or record.run.is_active:  # An unknown run may be of another database.
            return
        hold = self.folder.hold_run_exclusive(run_id)
        if hold is None:
            return
        try:
            await self.recover(run_id)
            await self.delete_if_requested(run_id, is_over=True)
            self.folder.remove_run_folder(run_id)
        finally:
            hold.close()

    async def sweep(self) -> None:
        """Clean up one batch of runs that ended in other processes, or without a clean-up.

        The next sweep continues after this batch. Runs that cannot be cleaned up therefore do not
        prevent the clean-up of later runs.
        """
        try:
            run_ids = self.folder.run_ids()
        except OSError as error:
            log.warning("file_sweep_failed", extra={"reason": str(error)})
            return
        remaining = [
            run_id
            for run_id in run_ids
            if run_id > self._last_swept_id and run_id not in self.open_runs
        ]
        batch = remaining[:BATCH_SIZE]
        self._last_swept_id = batch[-1] if len(remaining) > BATCH_SIZE else RunId("")
        for run_id in await self._files.ended_runs(batch) if batch else ():
            try:
                await self.clean_up(run_id)
            except OSError as error:  # The next round tries again.
                log.warning("file_cleanup_failed", extra={"run_id": run_id, "reason": str(error)})

    async def _delete(self, run_id: RunId, key: Key) -> None:
        async with self._hold_key(key):
            while files := await self._files_of_run(run_id, limit=BATCH_SIZE):
                await self._remove(files)

    async def _remove(self, files: Sequence[StoredFile]) -> None:
        # Files before records: after a crash, the next clean-up finds the records and repeats this.
        await self.threads.run(self.folder.remove, files[0].key, [file.path for file in files])
        await self._drop(files)

    async def _drop(self, files: Sequence[StoredFile]) -> None:
        owners = tuple((file.path, file.run_id) for file in files)
        await self.store.apply(
            RemoveFileRecords(key=files[0].key, data_id=files[0].data_id, owners=owners)
        )

    async def _files_of_key(self, key: Key, *, after: str = "") -> Sequence[StoredFile]:
        data_id = self.folder.data_id()
        return await self._files.files_of_key(key, data_id=data_id, limit=BATCH_SIZE, after=after)

    async def _files_of_run(self, run_id: RunId, *, limit: int) -> Sequence[StoredFile]:
        data_id = self.folder.data_id()
        return await self._files.files_of_run(run_id, data_id=data_id, limit=limit)

    @asynccontextmanager
    async def _hold_key(self, key: Key) -> AsyncIterator[None]:
        # Poll, because the current holder of the lock may be another process.
        while (hold := self.folder.hold_key(key)) is None:  # noqa: ASYNC110
            await asyncio.sleep(LOCK_RETRY_S)
        try:
            yield
        finally:
            hold.close()


def part_name(generation: int, number: int, name: str) -> str:
    return f"{generation}-{number}-{name}.part"


def parse_generation(part: str) -> int:
    """Return the generation in the name of a part, or 0 if headway did not create the file."""
    number = part.split("-", 1)[0]
    return int(number) if number.isdecimal() else 0
