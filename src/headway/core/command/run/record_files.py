"""The file records: which run made which file. Only the holder of a claim adds a record."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import HolderCommand, RowsNeeded
from headway.core.errors import InvalidInput
from headway.core.ids import Key, RunId
from headway.core.run.run import Run
from headway.core.stored_file import FileAddress, StoredFile, check_path

REMOVE_COUNT_MAX: Final = 1_000


class FileResult(StrEnum):
    NEW = "new"
    """The run had no file at this path before."""
    REPLACED = "replaced"
    """The run had a file at this path, made by this execution or an earlier one."""
    REFUSED = "refused"
    """The claim is stale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishFile(HolderCommand[FileResult]):
    """Record that the run has completed a file, which still has its temporary name `part`.

    The caller renames the file only afterwards, so a file that a stale claim has written never gets
    its final name. After a crash between record and rename, the next execution renames the file.
    """

    key: Key
    data_id: str
    path: str
    part: str
    byte_count: int

    may_free_capacity: ClassVar[bool] = False
    stale_answer: ClassVar[FileResult] = FileResult.REFUSED

    def __post_init__(self) -> None:
        check_path(self.path)

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id)
        rows.files.setdefault((self.key, self.data_id), {})[self.path] = None

    def decide_held(self, batch: BatchState, run: Run) -> FileResult:
        assert run.key == self.key
        stored = batch.files.get(FileAddress(self.key, self.data_id, self.path))
        batch.put_file(
            StoredFile(
                key=self.key,
                data_id=self.data_id,
                path=self.path,
                run_id=run.id,
                part=self.part,
                byte_count=self.byte_count,
                at=batch.now,
            )
        )
        is_new = stored is None or stored.run_id != run.id
        return FileResult.NEW if is_new else FileResult.REPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFileRecords:
    """Remove the records of deleted files. Keep a record if another run has remade the file."""

    key: Key
    data_id: str
    owners: tuple[tuple[str, RunId], ...]
    """Each path with the run that made the deleted file."""

    may_free_capacity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if len(self.owners) > REMOVE_COUNT_MAX:
            raise InvalidInput("owners", f"must have at most {REMOVE_COUNT_MAX:,} items")

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        paths = rows.files.setdefault((self.key, self.data_id), {})
        paths |= dict.fromkeys(path for path, _ in self.owners)

    def decide(self, batch: BatchState) -> int:
        """Return how many records were removed."""
        count = 0
        for path, run_id in self.owners:
            address = FileAddress(self.key, self.data_id, path)
            stored = batch.files.get(address)
            if stored is not None and stored.run_id == run_id:
                batch.remove_file(address)
                count += 1
        return count


@dataclass(frozen=True, slots=True)
class ConfirmOutputPrepared(HolderCommand[bool]):
    """Record that the key's earlier output has been archived or deleted.

    Later executions of the run do not archive or delete it again.
    """

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def decide_held(self, batch: BatchState, run: Run) -> bool:
        batch.update(run, on_existing_output=None)
        return True
