"""The ledger of files: fenced by the claim, one row per file, checked before a Start (R1.12)."""

from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.prune import PruneRuns
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.claim import ClaimedRun
from headway.core.command.run.idempotency import Repeated
from headway.core.command.run.record_files import (
    ConfirmOutputPrepared,
    FileResult,
    FinishFile,
    RemoveFileRecords,
)
from headway.core.command.run.report import SaveCheckpoint
from headway.core.command.run.settle import Complete, ConfirmCancel
from headway.core.command.run.submit import Accepted, Busy, ExistingOutput, Joined
from headway.core.command.run.wait import Park
from headway.core.errors import InvalidInput
from headway.core.ids import Key, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.run import Claim, FilesOnCancel, OnExistingOutput, RunMode
from headway.core.run.status import RunStatus
from headway.core.stored_file import StoredFile
from headway.testing import FakeClock, a_claim, a_submit, claim_of, document
from tests.contract.backends import read_all
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_run,
    orphan_run,
    read_run,
    read_status,
    register_instance,
    start_run,
)

DATA = "data-1"


def finish_file(
    run: ClaimedRun, path: str, *, part: str = "1-1", data_id: str = DATA
) -> FinishFile:
    return FinishFile(
        claim=claim_of(run),
        key=run.key,
        data_id=data_id,
        path=path,
        part=part,
        byte_count=7,
    )


async def files(store: SqlStore, key: str = "ann", *, data_id: str = DATA) -> list[StoredFile]:
    return list(await store.files.files_of_key(Key(key), data_id=data_id, limit=100))


async def end_with_files(store: SqlStore, *paths: str, key: str = "ann") -> RunId:
    run = await start_run(store, key)
    for path in paths:
        assert await store.apply(finish_file(run, path))
    await store.apply(Complete(claim_of(run)))
    return run.run_id


def a_start(key: str = "ann", **options: Any) -> Any:
    return a_submit(key, **({"on_existing_output": OnExistingOutput.ASK} | options))


@pytest.mark.proves("R1.8")
async def test_finished_file_is_listed_for_its_run(store: SqlStore, clock: FakeClock) -> None:
    run = await start_run(store)
    assert await store.apply(finish_file(run, "ключ/🔑.jpg"))
    (file,) = await files(store)
    assert file == StoredFile(Key("ann"), DATA, "ключ/🔑.jpg", run.run_id, "1-1", 7, clock())
    assert list(await store.files.files_of_run(run.run_id, data_id=DATA, limit=9)) == [file]
    assert list(await store.files.files_of_run(run.run_id, data_id="other", limit=9)) == []


@pytest.mark.proves("R1.8")
async def test_stored_files_can_be_read_by_run_or_by_part_or_in_pages(store: SqlStore) -> None:
    over = await end_with_files(store, "a", "B", "b", "ä", key="bob")
    run = await start_run(store)
    await store.apply(finish_file(run, "x", part="1-1"))
    await store.apply(finish_file(run, "y", part="1-2"))
    stored_files = await store.files.files_by_part(
        run.run_id, data_id=DATA, parts=["1-2", "1-3", "2-1"]
    )
    assert [file.path for file in stored_files] == ["y"]
    assert list(await store.files.ended_runs([over, run.run_id, RunId("none")])) == [over]
    assert len(await store.files.files_of_run(over, data_id=DATA, limit=3)) == 3
    await store.apply(finish_file(run, "z", part="1-3", data_id="other"))
    made = await store.files.list_run_files(run.run_id, limit=2, after="x")
    assert [file.path for file in made] == ["y", "z"]
    assert len(await store.files.list_run_files(over, limit=3)) == 3
    paths: list[str] = []
    while page := await store.files.files_of_key(
        Key("bob"), data_id=DATA, limit=1, after=paths[-1] if paths else ""
    ):
        paths += [file.path for file in page]
    assert sorted(paths) == sorted(["a", "B", "b", "ä"])


@pytest.mark.proves("I2")
async def test_stale_claim_records_nothing(store: SqlStore) -> None:
    run = await start_run(store)
    await orphan_run(store, run.run_id)
    before = await read_all(store)
    assert await store.apply(finish_file(run, "late.jpg")) is FileResult.REFUSED
    assert await read_all(store) == before
    two = await claim_run(store, await register_instance(store))
    assert await store.apply(finish_file(two, "late.jpg", part="2-1"))
    assert await store.apply(finish_file(run, "late.jpg")) is FileResult.REFUSED
    assert [file.part for file in await files(store)] == ["2-1"]


@pytest.mark.proves("I17")
async def test_only_the_first_file_that_a_run_writes_at_a_path_is_new(store: SqlStore) -> None:
    await end_with_files(store, "1.jpg")
    run = await start_run(store)
    assert (
        await store.apply(finish_file(run, "1.jpg")) is FileResult.NEW
    )  # So far it belongs to another run.
    assert await store.apply(finish_file(run, "1.jpg", part="1-2")) is FileResult.REPLACED
    await orphan_run(store, run.run_id)
    again = await claim_run(store, await register_instance(store))
    assert await store.apply(finish_file(again, "1.jpg", part="2-1")) is FileResult.REPLACED
    assert await store.apply(finish_file(again, "2.jpg", part="2-2")) is FileResult.NEW


@pytest.mark.proves("R1.8")
async def test_files_that_a_cancelling_run_finishes_are_still_recorded(store: SqlStore) -> None:
    run = await start_run(store)
    await store.apply(RequestCancel(run_id=run.run_id))
    assert await store.apply(finish_file(run, "1.jpg"))
    await store.apply(ConfirmCancel(claim_of(run)))
    assert await store.apply(finish_file(run, "2.jpg")) is FileResult.REFUSED
    assert [file.path for file in await files(store)] == ["1.jpg"]


@pytest.mark.proves("R1.12")
async def test_file_belongs_to_the_run_that_wrote_it_last(store: SqlStore) -> None:
    first = await end_with_files(store, "1.jpg", "2.jpg")
    second = await end_with_files(store, "2.jpg")
    assert [(file.path, file.run_id) for file in await files(store)] == [
        ("1.jpg", first),
        ("2.jpg", second),
    ]
    # The first run cannot drop a file that the second has made since.
    drop = RemoveFileRecords(
        key=Key("ann"), data_id=DATA, owners=(("1.jpg", first), ("2.jpg", first), ("3", first))
    )
    assert await store.apply(drop) == 1
    assert [file.path for file in await files(store)] == ["2.jpg"]
    assert await store.apply(drop) == 0


@pytest.mark.proves("R1.8")
async def test_same_path_under_another_key_is_another_file(store: SqlStore) -> None:
    run = await start_run(store)
    assert await store.apply(finish_file(run, "1.jpg"))
    assert await store.apply(finish_file(run, "1.jpg", data_id="other"))
    assert len(await files(store)) == len(await files(store, data_id="other")) == 1


@pytest.mark.proves("I1")
async def test_file_is_recorded_replaced_removed_and_recorded_again_in_one_batch(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    drop = RemoveFileRecords(key=Key("ann"), data_id=DATA, owners=(("1.jpg", run.run_id),))
    answers = await apply_in_one_batch(
        store,
        finish_file(run, "1.jpg", part="1-1"),
        finish_file(run, "1.jpg", part="1-2"),
        drop,
        drop,
        finish_file(run, "1.jpg", part="1-3"),
    )
    assert answers == [FileResult.NEW, FileResult.REPLACED, 1, 0, FileResult.NEW]
    assert [file.part for file in await files(store)] == ["1-3"]
    assert await apply_in_one_batch(store, drop, finish_file(run, "1.jpg", part="1-4")) == [
        1,
        FileResult.NEW,
    ]
    assert [file.part for file in await files(store)] == ["1-4"]


@pytest.mark.proves("S7")
async def test_path_that_leaves_the_folder_is_refused(store: SqlStore) -> None:
    run = await start_run(store)
    with pytest.raises(InvalidInput, match=r"file '\.\./1\.jpg' must not contain"):
        finish_file(run, "../1.jpg")


@pytest.mark.proves("R1.8")
@pytest.mark.parametrize("files", FilesOnCancel)
async def test_continue_has_a_checkpoint_after_cancel_with_keep_but_not_with_delete(
    store: SqlStore, files: FilesOnCancel
) -> None:
    run = await start_run(store)
    cancel = RequestCancel(run_id=run.run_id, files=files)
    save = SaveCheckpoint(claim_of(run), document({"page": 2}))
    await store.apply(save)
    await store.apply(cancel)
    await store.apply(save)  # A cancelling run may still save.
    await store.apply(ConfirmCancel(claim_of(run)))
    two = await start_run(store, mode=RunMode.CONTINUE)
    assert two.checkpoint == (None if files is FilesOnCancel.DELETE else '{"page":2}')
    # The same in one batch, and for a run without a holder.
    save = SaveCheckpoint(claim_of(two), document({"page": 3}))
    park, cancel = Park(claim_of(two)), RequestCancel(run_id=two.run_id, files=files)
    holder = await register_instance(store)
    submission = a_submit(mode=RunMode.CONTINUE)
    *_, claimed = await apply_in_one_batch(store, save, park, cancel, submission, a_claim(holder))
    assert [run.run_id for run in claimed] == [submission.run_id]
    assert claimed[0].checkpoint == (None if files is FilesOnCancel.DELETE else '{"page":3}')


# Start on a key that has output.


@pytest.mark.proves("R1.12")
async def test_start_without_on_existing_output_writes_nothing_if_output_exists(
    store: SqlStore,
) -> None:
    await end_with_files(store, "b.jpg", "a.jpg")
    before = await read_all(store)
    assert await store.apply(a_start()) == ExistingOutput(2, "a.jpg")
    for policy in (OnConflict.ENQUEUE, OnConflict.REPLACE):
        assert await store.apply(a_start(on_conflict=policy)) == ExistingOutput(2, "a.jpg")
    assert await read_all(store) == before
    assert isinstance(await store.apply(a_start("Ann")), Accepted)


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize(
    ("options", "choice"),
    [
        ({"on_existing_output": OnExistingOutput.REPLACE}, None),
        ({"on_existing_output": OnExistingOutput.ARCHIVE}, "archive"),
        ({"on_existing_output": OnExistingOutput.DELETE}, "delete"),
        ({"mode": RunMode.CONTINUE}, None),
        ({"mode": RunMode.CONTINUE, "on_existing_output": OnExistingOutput.DELETE}, None),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
async def test_start_with_on_existing_output_is_accepted_and_so_is_continue(
    store: SqlStore, options: dict[str, Any], choice: str | None
) -> None:
    await end_with_files(store, "1.jpg")
    submission = a_start(**options)
    assert isinstance(await store.apply(submission), Accepted)
    assert (await read_run(store, submission.run_id)).on_existing_output == choice
    assert (await claim_run(store, await register_instance(store))).on_existing_output == choice


@pytest.mark.proves("R1.12")
async def test_on_existing_output_is_applied_once_per_run(store: SqlStore) -> None:
    run = await start_run(store, on_existing_output=OnExistingOutput.ARCHIVE)
    await orphan_run(store, run.run_id)
    assert not await store.apply(ConfirmOutputPrepared(claim_of(run)))
    two = await claim_run(store, await register_instance(store))
    assert two.on_existing_output == "archive"
    assert await store.apply(ConfirmOutputPrepared(claim_of(two)))
    assert await store.apply(ConfirmOutputPrepared(claim_of(two)))
    await orphan_run(store, run.run_id)
    assert (await claim_run(store, await register_instance(store))).on_existing_output is None


@pytest.mark.proves("R1.12")
async def test_start_of_a_key_without_files_does_not_require_on_existing_output(
    store: SqlStore,
) -> None:
    await end_with_files(store)
    await end_with_files(store, "1.jpg", key="bob")
    assert isinstance(await store.apply(a_start()), Accepted)


@pytest.mark.proves("R1.5")
async def test_busy_key_is_reported_before_existing_output(store: SqlStore) -> None:
    run = await start_run(store)
    await store.apply(finish_file(run, "1.jpg"))
    assert await store.apply(a_start()) == Busy(run.run_id)
    assert await store.apply(a_start(on_conflict=OnConflict.JOIN)) == Joined(run.run_id)


@pytest.mark.proves("I16")
async def test_repeated_submission_returns_its_run_without_checking_for_existing_output(
    store: SqlStore,
) -> None:
    submission = a_start(idempotency_key="once")
    assert isinstance(await store.apply(submission), Accepted)
    run = await claim_run(store, await register_instance(store))
    await store.apply(finish_file(run, "1.jpg"))
    await store.apply(Complete(claim_of(run)))
    assert await store.apply(a_start(idempotency_key="once")) == Repeated(submission.run_id)


@pytest.mark.proves("R1.12")
async def test_unattended_start_on_existing_output_is_rejected_with_the_reason(
    store: SqlStore,
) -> None:
    await end_with_files(store, "1.jpg")
    unattended = a_start(is_unattended=True)
    assert await store.apply(unattended) == ExistingOutput(1, "1.jpg")
    assert await read_status(store, unattended.run_id) is RunStatus.REJECTED


@pytest.mark.proves("R1.12")
async def test_start_sees_files_that_were_added_and_removed_earlier_in_its_batch(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    first, second = a_start(), a_start()
    drop = RemoveFileRecords(key=Key("ann"), data_id=DATA, owners=(("1.jpg", run.run_id),))
    claim = Claim(run.run_id, run.token)
    answers = await apply_in_one_batch(
        store, finish_file(run, "1.jpg"), Complete(claim), first, drop, second
    )
    assert answers[2] == ExistingOutput(1, "1.jpg")
    assert isinstance(answers[4], Accepted)


@pytest.mark.proves("I19")
async def test_files_outlive_the_row_of_their_run(store: SqlStore, clock: FakeClock) -> None:
    run_id = await end_with_files(store, "1.jpg")
    clock.advance(100)
    assert await store.apply(PruneRuns((run_id,), ended_before=clock())) == 1
    assert await store.apply(a_start()) == ExistingOutput(1, "1.jpg")
