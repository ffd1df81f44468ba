"""The ledger of files: which run made what, said by the one who holds its claim."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.errors import InvalidInput
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.core.stored_file import FileAddress, StoredFile, check_path

REMOVE_COUNT_MAX: Final = 1_000


class FileResult(StrEnum):
    NEW = "new"
    """The run had no file at this path before."""
    REPLACED = "replaced"
    """The run had one, made by this execution or an earlier one."""
    REFUSED = "refused"
    """The claim is void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishFile:
    """The file is whole, under the name of `part`; from here on it is the run's.

    It is renamed only afterwards: what a void claim has written never gets a final name, and what
    a crash leaves between the two is renamed by whoever comes next.
    """

    claim: Claim
    key: Key
    data_id: str
    path: str
    part: str
    byte_count: int

    def __post_init__(self) -> None:
        check_path(self.path)

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)
        needs.files.setdefault((self.key, self.data_id), {})[self.path] = None

    def decide(self, world: BatchState) -> FileResult:
        run = world.held_run(self.claim)
        if run is None:
            return FileResult.REFUSED
        assert run.key == self.key
        known = world.files.get(FileAddress(self.key, self.data_id, self.path))
        world.put_file(
            StoredFile(
                key=self.key,
                data_id=self.data_id,
                path=self.path,
                run_id=run.id,
                part=self.part,
                byte_count=self.byte_count,
                at=world.now,
            )
        )
        is_new = known is None or known.run_id != run.id
        return FileResult.NEW if is_new else FileResult.REPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFileRecords:
    """These files are no more. What another run has made meanwhile stays on the ledger."""

    key: Key
    data_id: str
    owners: tuple[tuple[str, RunId], ...]
    """Each path with the run whose file it was."""

    def __post_init__(self) -> None:
        if len(self.owners) > REMOVE_COUNT_MAX:
            raise InvalidInput("owners", f"must be at most {REMOVE_COUNT_MAX:,}")

    def need(self, needs: RowsNeeded) -> None:
        wanted = needs.files.setdefault((self.key, self.data_id), {})
        wanted |= dict.fromkeys(path for path, _ in self.owners)

    def decide(self, world: BatchState) -> int:
        """How many entries went."""
        count = 0
        for path, run_id in self.owners:
            place = FileAddress(self.key, self.data_id, path)
            known = world.files.get(place)
            if known is not None and known.run_id == run_id:
                world.remove_file(place)
                count += 1
        return count


@dataclass(frozen=True, slots=True)
class ConfirmOutputPrepared:
    """What was to be done with the key's earlier output is done, once and for all executions."""

    claim: Claim

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)

    def decide(self, world: BatchState) -> bool:
        run = world.held_run(self.claim)
        if run is None:
            return False
        world.update(run, on_existing_output=None)
        return True
