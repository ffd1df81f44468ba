"""Write the files of one execution. The module `output_files` describes their life cycle."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from headway.core.command.run.record_files import FileResult, FinishFile
from headway.core.errors import InfrastructureError, InvalidInput, RunNotActive
from headway.core.stored_file import check_path
from headway.log import event_log
from headway.ports.file_folder import Hold, PartFile
from headway.services.blocking_calls import Threads
from headway.services.context.execution import Ending, Execution
from headway.services.context.output_files import Output, part_name
from headway.services.retrying import retry_until_available

BUFFER_BYTE_COUNT: Final = 1 << 16

log = event_log(__name__)


class FileWriter:
    """A file that a job has opened with `ctx.file`.

    The file gets its final name when the `async with` block ends.
    """

    def __init__(self, part: PartFile, threads: Threads) -> None:
        self._part = part
        self._threads = threads
        self._buffer = bytearray()

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append `data` to the file. Wait for the disk when the buffer is full."""
        self._buffer += check_data(data)
        if len(self._buffer) >= BUFFER_BYTE_COUNT:
            await self.flush()

    async def flush(self) -> None:
        """Pass the buffered data to the operating system."""
        buffered, self._buffer = self._buffer, bytearray()
        await self._threads.run(self._part.write, buffered)


class RunFiles:
    """Creates, finishes and cleans up the files of one execution."""

    def __init__(self, execution: Execution, output: Output) -> None:
        self._execution = execution
        self._output = output
        self._folder = output.folder
        self._run_id = execution.claimed.run_id
        self._key = execution.claimed.key
        self._hold: Hold | None = None
        self._enter_lock = asyncio.Lock()
        self._has_ended = False
        self._may_have_parts = execution.claimed.generation > 1
        """True if this or an earlier execution may have begun a file."""
        self._part_count = 0
        self._finished: dict[str, FinishFile] = {}
        """The commands that record finished parts, by part name, until the parts are renamed."""

    @asynccontextmanager
    async def open_file(self, path: str) -> AsyncIterator[FileWriter]:
        part = await self.begin_part(path)
        writer = FileWriter(part, self._output.threads)
        try:
            yield writer
            await writer.flush()
            await self.finish_part(part, path)
        except BaseException:
            self.discard_part(part)
            raise

    async def has_file(self, path: str) -> bool:
        check_path(path)
        await self._open_folder()
        return self._folder.has_file(self._key, path)

    async def prepare(self) -> None:
        """Archive or remove the key's earlier output before the job begins, if requested."""
        if self._execution.claimed.on_existing_output is not None:
            await self._open_folder()
            await retry_until_available(lambda: self._output.prepare(self._execution))

    async def begin_part(self, path: str) -> PartFile:
        check_path(path)
        await self._open_folder()
        self._folder.check_path(self._key, path)
        self._part_count += 1
        generation = self._execution.claimed.generation
        name = part_name(generation, self._part_count, path.rsplit("/", 1)[-1])
        return self._folder.create_part(self._run_id, name)

    async def finish_part(self, part: PartFile, path: str) -> None:
        """Record the file in the ledger, then rename it to its final path.

        Raise RunNotActive if the claim is stale.
        """
        byte_count = await self._output.threads.run(part.finish)
        self._check_not_ended()
        self._folder.check_path(self._key, path)
        self._finished[part.name] = command = FinishFile(
            claim=self._execution.claim,
            key=self._key,
            data_id=self._folder.data_id(),
            path=path,
            part=part.name,
            byte_count=byte_count,
        )
        answer = await retry_until_available(lambda: self._output.store.apply(command))
        if answer is FileResult.REFUSED:
            del self._finished[part.name]
            raise RunNotActive(self._run_id)
        if answer is FileResult.NEW:
            self._execution.has_progressed = True
        await self._output.threads.run(
            self._folder.publish_part, self._run_id, part.name, self._key, path
        )
        del self._finished[part.name]

    def discard_part(self, part: PartFile) -> None:
        """Remove the part of a file that was not finished. Any thread may call this."""
        part.close()
        if part.name not in self._finished:  # Otherwise `end_parts` checks the ledger.
            self._folder.drop_part(self._run_id, part.name)

    async def end_parts(self, *, is_released: bool) -> None:
        """Rename or remove all parts of the run, after the job has stopped.

        Also delete the run's files if the claim is released because of a cancel that requested the
        deletion. If an operation fails, the sweep repeats it later.
        """
        self._has_ended = True
        try:
            if not self._has_parts():
                return
            # Repeat these commands, because the answers to the first attempts may have been lost.
            for command in list(self._finished.values()):
                await self._output.store.apply(command)
            await self._output.recover(
                self._run_id, up_to_generation=self._execution.claimed.generation
            )
            if is_released and self._execution.ending is Ending.CANCELLED:
                await self._output.delete_if_requested(self._run_id, is_over=False)
        except (InfrastructureError, OSError) as error:
            log.warning("file_cleanup_failed", extra={"run_id": self._run_id, "reason": str(error)})

    async def close(self) -> None:
        """Release the run's folder, and clean it up if the run has ended.

        Call this after the outcome of the execution is written.
        """
        if self._hold is not None:
            self._hold.close()
            self._hold = None
        self._output.open_runs.pop(self._run_id, None)
        try:
            if self._has_parts():
                await self._output.clean_up(self._run_id)
        except (InfrastructureError, OSError) as error:
            log.warning("file_cleanup_failed", extra={"run_id": self._run_id, "reason": str(error)})

    async def _open_folder(self) -> None:
        async with self._enter_lock:
            self._check_not_ended()
            if self._hold is not None:
                return
            self._may_have_parts = True
            hold = self._folder.hold_run_shared(self._run_id)
            try:
                self._output.open_runs[self._run_id] = self._key
                await retry_until_available(self._clean_up)
            except BaseException:
                hold.close()
                raise
            self._hold = hold

    def _has_parts(self) -> bool:
        return self._may_have_parts and self._folder.has_run(self._run_id)

    async def _clean_up(self) -> None:
        earlier = self._execution.claimed.generation - 1
        await self._output.recover(self._run_id, up_to_generation=earlier)
        await self._output.clean_up_key(self._key, except_run_id=self._run_id)

    def _check_not_ended(self) -> None:
        if self._has_ended:
            raise RunNotActive(self._run_id)


def check_data(data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    """Return `data`. Raise InvalidInput if it is not bytes."""
    value: object = data
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidInput("data", "must be bytes; encode text first")
    return data
