"""What runs leave behind: finished files, and what must be tidied up after them.

A file is written as a `.part` in the run's own folder, then entered in the ledger under the claim,
then renamed. A crash before the entry leaves a `.part`, which is removed; a crash after it leaves a
`.part` that the ledger knows, which is renamed. Whoever comes next does it: the run's next
execution, its end, or the sweep of any instance that has the same data directory. So the ledger
knows every finished file, and what a void claim has written never gets its final name.

Files are removed by whoever is alone with the folder of the key, and a run's folder of parts stays
until all is done about its files: it is what makes a crash in the middle be noticed.
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
        """The threads in which files are written, renamed and removed."""
        self._runs = runs
        self._files = files
        self.open_runs: dict[RunId, Key] = {}
        """Runs of this process that have files open, or may have."""
        self._last_swept_id = RunId("")
        """After which the next sweep goes on; empty: the last came to the end."""

    async def prepare(self, execution: Execution) -> None:
        """Do with the key's earlier output what the run's submitter chose, before the job begins.

        Done anew after a crash, and once it is done never again.
        """
        claimed = execution.claimed
        async with self._hold_key(claimed.key):
            # Looked at again now that nobody else can be at it: a later claim may have been here,
            # and its job be at work since.
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
        prepared = ConfirmOutputPrepared(execution.claim)
        if not await retry_until_available(lambda: self.store.apply(prepared)):
            raise RunNotActive(claimed.run_id)

    async def _archive(self, execution: Execution) -> None:
        claimed = execution.claimed
        if self.folder.has_archive(claimed.key, claimed.run_id):
            return  # An earlier execution came so far.
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
                raise asyncio.CancelledError  # It was stopped; nothing may be removed.

    async def recover(self, run_id: RunId, *, up_to_generation: int | None = None) -> None:
        """Rename or remove what executions up to generation `up_to` (None: all) left unfinished."""
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
        except InvalidInput as error:  # The place was taken by a folder meanwhile.
            log.warning("file_not_placed", extra={"run_id": run_id, "reason": str(error)})
            await self._drop([file])
            self.folder.drop_part(run_id, file.part)

    async def delete_if_requested(self, run_id: RunId, *, is_over: bool) -> None:
        """Remove the run's files, if a cancel said so and nothing but its end can follow."""
        record = await self._runs.run(run_id)
        status = RunStatus.CANCELED if is_over else RunStatus.CANCELLING
        if record is not None and record.run.status is status and record.run.delete_files_on_cancel:
            await self._delete(run_id, record.run.key)

    async def clean_up_key(self, key: Key, *, except_run_id: RunId) -> None:
        """Finish what earlier runs of the key were about to do, before another makes files there.

        What they were to rename later would replace something newer.
        """
        for run_id in self.folder.run_ids():
            if run_id != except_run_id and self.open_runs.get(run_id, key) == key:
                record = await self._runs.run(run_id)
                if record is not None and record.run.key == key and not record.run.is_active:
                    await self.recover(run_id)
                    await self.delete_if_requested(run_id, is_over=True)

    async def clean_up(self, run_id: RunId) -> None:
        """Tidy up after the run, if it is over and its runner has stopped."""
        record = await self._runs.run(run_id)
        if record is None or record.run.is_active:  # An unknown one may be another database's.
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
        """Tidy up after runs that ended elsewhere, or whose executor did not come to it.

        One batch of them: what stays in front must not hide what is behind, so the next goes on.
        """
        try:
            found = self.folder.run_ids()
        except OSError as error:
            log.warning("files_not_looked_at", extra={"reason": str(error)})
            return
        left = [one for one in found if one > self._last_swept_id and one not in self.open_runs]
        batch = left[:BATCH_SIZE]
        self._last_swept_id = batch[-1] if len(left) > BATCH_SIZE else RunId("")
        for run_id in await self._files.ended_runs(batch) if batch else ():
            try:
                await self.clean_up(run_id)
            except OSError as error:  # It is tried again in the next round.
                log.warning("files_left", extra={"run_id": run_id, "reason": str(error)})

    async def _delete(self, run_id: RunId, key: Key) -> None:
        async with self._hold_key(key):
            while files := await self._files_of_run(run_id, limit=BATCH_SIZE):
                await self._remove(files)

    async def _remove(self, files: Sequence[StoredFile]) -> None:
        # The files first: what the ledger still knows is removed by whoever comes next.
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
        # Until the other one is done, who may be another process.
        while (hold := self.folder.hold_key(key)) is None:  # noqa: ASYNC110
            await asyncio.sleep(LOCK_RETRY_S)
        try:
            yield
        finally:
            hold.close()


def part_name(generation: int, number: int, name: str) -> str:
    return f"{generation}-{number}-{name}.part"


def parse_generation(part: str) -> int:
    """0: it is not ours, and nobody else's business here."""
    number = part.split("-", 1)[0]
    return int(number) if number.isdecimal() else 0
