"""The ledger of files: fenced like all else, one entry for a file, asked before a Start (R1.12)."""

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
from tests.contract.scenes import claimed_one, instance, orphaned, running, state, status, together

DATA = "data-1"


def finished(one: ClaimedRun, path: str, *, part: str = "1-1", data_id: str = DATA) -> FinishFile:
    return FinishFile(
        claim=claim_of(one),
        key=one.key,
        data_id=data_id,
        path=path,
        part=part,
        byte_count=7,
    )


async def files(store: SqlStore, key: str = "ann", *, data_id: str = DATA) -> list[StoredFile]:
    return list(await store.files.files_of_key(Key(key), data_id=data_id, limit=100))


async def ended_with(store: SqlStore, *paths: str, key: str = "ann") -> RunId:
    one = await running(store, key)
    for path in paths:
        assert await store.apply(finished(one, path))
    await store.apply(Complete(claim_of(one)))
    return one.run_id


def asking(
    key: str = "ann", *, existing: OnExistingOutput = OnExistingOutput.ASK, **wanted: Any
) -> Any:
    return a_submit(key, on_existing_output=existing, **wanted)


@pytest.mark.proves("R1.8")
async def test_a_finished_file_is_on_the_ledger_of_its_run(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store)
    assert await store.apply(finished(one, "ключ/🔑.jpg"))
    (file,) = await files(store)
    assert file == StoredFile(Key("ann"), DATA, "ключ/🔑.jpg", one.run_id, "1-1", 7, clock())
    assert list(await store.files.files_of_run(one.run_id, data_id=DATA, limit=9)) == [file]
    assert list(await store.files.files_of_run(one.run_id, data_id="other", limit=9)) == []


@pytest.mark.proves("R1.8")
async def test_the_ledger_is_read_by_run_by_part_and_page_by_page(store: SqlStore) -> None:
    over = await ended_with(store, "a", "B", "b", "ä", key="bob")
    one = await running(store)
    await store.apply(finished(one, "x", part="1-1"))
    await store.apply(finished(one, "y", part="1-2"))
    found = await store.files.files_by_part(one.run_id, data_id=DATA, parts=["1-2", "1-3", "2-1"])
    assert [file.path for file in found] == ["y"]
    assert list(await store.files.ended_runs([over, one.run_id, RunId("none")])) == [over]
    assert len(await store.files.files_of_run(over, data_id=DATA, limit=3)) == 3
    await store.apply(finished(one, "z", part="1-3", data_id="other"))
    made = await store.files.list_run_files(one.run_id, limit=2, after="x")
    assert [file.path for file in made] == ["y", "z"]
    assert len(await store.files.list_run_files(over, limit=3)) == 3
    paths: list[str] = []
    while page := await store.files.files_of_key(
        Key("bob"), data_id=DATA, limit=1, after=paths[-1] if paths else ""
    ):
        paths += [file.path for file in page]
    assert sorted(paths) == sorted(["a", "B", "b", "ä"])


@pytest.mark.proves("I2")
async def test_a_void_claim_records_nothing(store: SqlStore) -> None:
    one = await running(store)
    await orphaned(store, one.run_id)
    before = await read_all(store)
    assert await store.apply(finished(one, "late.jpg")) is FileResult.REFUSED
    assert await read_all(store) == before
    two = await claimed_one(store, await instance(store))
    assert await store.apply(finished(two, "late.jpg", part="2-1"))
    assert await store.apply(finished(one, "late.jpg")) is FileResult.REFUSED
    assert [file.part for file in await files(store)] == ["2-1"]


@pytest.mark.proves("I17")
async def test_only_the_first_file_of_a_run_at_a_path_is_new(store: SqlStore) -> None:
    await ended_with(store, "1.jpg")
    one = await running(store)
    assert await store.apply(finished(one, "1.jpg")) is FileResult.NEW  # Another run's so far.
    assert await store.apply(finished(one, "1.jpg", part="1-2")) is FileResult.REPLACED
    await orphaned(store, one.run_id)
    again = await claimed_one(store, await instance(store))
    assert await store.apply(finished(again, "1.jpg", part="2-1")) is FileResult.REPLACED
    assert await store.apply(finished(again, "2.jpg", part="2-2")) is FileResult.NEW


@pytest.mark.proves("R1.8")
async def test_a_run_that_is_told_to_end_still_owns_what_it_finishes(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(RequestCancel(run_id=one.run_id))
    assert await store.apply(finished(one, "1.jpg"))
    await store.apply(ConfirmCancel(claim_of(one)))
    assert await store.apply(finished(one, "2.jpg")) is FileResult.REFUSED
    assert [file.path for file in await files(store)] == ["1.jpg"]


@pytest.mark.proves("R1.12")
async def test_a_file_is_the_run_s_that_made_it_last(store: SqlStore) -> None:
    first = await ended_with(store, "1.jpg", "2.jpg")
    second = await ended_with(store, "2.jpg")
    assert [(file.path, file.run_id) for file in await files(store)] == [
        ("1.jpg", first),
        ("2.jpg", second),
    ]
    # What the second has made since is not the first's to drop.
    drop = RemoveFileRecords(
        key=Key("ann"), data_id=DATA, owners=(("1.jpg", first), ("2.jpg", first), ("3", first))
    )
    assert await store.apply(drop) == 1
    assert [file.path for file in await files(store)] == ["2.jpg"]
    assert await store.apply(drop) == 0


@pytest.mark.proves("R1.8")
async def test_the_same_name_elsewhere_is_another_file(store: SqlStore) -> None:
    one = await running(store)
    assert await store.apply(finished(one, "1.jpg"))
    assert await store.apply(finished(one, "1.jpg", data_id="other"))
    assert len(await files(store)) == len(await files(store, data_id="other")) == 1


@pytest.mark.proves("I1")
async def test_in_one_batch_a_file_is_made_replaced_dropped_and_made(store: SqlStore) -> None:
    one = await running(store)
    drop = RemoveFileRecords(key=Key("ann"), data_id=DATA, owners=(("1.jpg", one.run_id),))
    answers = await together(
        store,
        finished(one, "1.jpg", part="1-1"),
        finished(one, "1.jpg", part="1-2"),
        drop,
        drop,
        finished(one, "1.jpg", part="1-3"),
    )
    assert answers == [FileResult.NEW, FileResult.REPLACED, 1, 0, FileResult.NEW]
    assert [file.part for file in await files(store)] == ["1-3"]
    assert await together(store, drop, finished(one, "1.jpg", part="1-4")) == [1, FileResult.NEW]
    assert [file.part for file in await files(store)] == ["1-4"]


@pytest.mark.proves("S7")
async def test_a_path_that_leads_out_is_refused_at_the_door(store: SqlStore) -> None:
    one = await running(store)
    with pytest.raises(InvalidInput, match=r"file: '\.\./1\.jpg' must not contain"):
        finished(one, "../1.jpg")


@pytest.mark.proves("R1.8")
@pytest.mark.parametrize("files", FilesOnCancel)
async def test_continue_after_delete_begins_anew_and_after_keep_at_the_checkpoint(
    store: SqlStore, files: FilesOnCancel
) -> None:
    one = await running(store)
    cancel = RequestCancel(run_id=one.run_id, files=files)
    save = SaveCheckpoint(claim_of(one), document({"page": 2}))
    await store.apply(save)
    await store.apply(cancel)
    await store.apply(save)  # It still may, while it unwinds.
    await store.apply(ConfirmCancel(claim_of(one)))
    two = await running(store, mode=RunMode.CONTINUE)
    assert two.checkpoint == (None if files is FilesOnCancel.DELETE else '{"page":2}')
    # All of it in one batch, and of a run that nobody holds.
    save = SaveCheckpoint(claim_of(two), document({"page": 3}))
    park, cancel = Park(claim_of(two)), RequestCancel(run_id=two.run_id, files=files)
    holder = await instance(store)
    submission = a_submit(mode=RunMode.CONTINUE)
    *_, claimed = await together(store, save, park, cancel, submission, a_claim(holder))
    assert [one.run_id for one in claimed] == [submission.run_id]
    assert claimed[0].checkpoint == (None if files is FilesOnCancel.DELETE else '{"page":3}')


# Start on a key that has output.


@pytest.mark.proves("R1.12")
async def test_a_start_asks_before_anything_is_written(store: SqlStore) -> None:
    await ended_with(store, "b.jpg", "a.jpg")
    before = await read_all(store)
    assert await store.apply(asking()) == ExistingOutput(2, "a.jpg")
    for policy in (OnConflict.ENQUEUE, OnConflict.REPLACE):
        assert await store.apply(asking(on_conflict=policy)) == ExistingOutput(2, "a.jpg")
    assert await read_all(store) == before
    assert isinstance(await store.apply(asking("Ann")), Accepted)


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ({"on_existing_output": OnExistingOutput.REPLACE}, None),
        ({"on_existing_output": OnExistingOutput.ARCHIVE}, "archive"),
        ({"on_existing_output": OnExistingOutput.DELETE}, "delete"),
        ({"mode": RunMode.CONTINUE}, None),
        ({"mode": RunMode.CONTINUE, "on_existing_output": OnExistingOutput.DELETE}, None),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
async def test_who_has_chosen_is_taken_and_continue_never_asks(
    store: SqlStore, wanted: dict[str, Any], kept: str | None
) -> None:
    await ended_with(store, "1.jpg")
    submission = asking(**wanted)
    assert isinstance(await store.apply(submission), Accepted)
    assert (await state(store, submission.run_id)).on_existing_output == kept
    assert (await claimed_one(store, await instance(store))).on_existing_output == kept


@pytest.mark.proves("R1.12")
async def test_the_choice_is_carried_out_once_for_all_executions(store: SqlStore) -> None:
    one = await running(store, on_existing_output=OnExistingOutput.ARCHIVE)
    await orphaned(store, one.run_id)
    assert not await store.apply(ConfirmOutputPrepared(claim_of(one)))
    two = await claimed_one(store, await instance(store))
    assert two.on_existing_output == "archive"
    assert await store.apply(ConfirmOutputPrepared(claim_of(two)))
    assert await store.apply(ConfirmOutputPrepared(claim_of(two)))
    await orphaned(store, one.run_id)
    assert (await claimed_one(store, await instance(store))).on_existing_output is None


@pytest.mark.proves("R1.12")
async def test_a_key_without_files_is_never_asked_about(store: SqlStore) -> None:
    await ended_with(store)
    await ended_with(store, "1.jpg", key="bob")
    assert isinstance(await store.apply(asking()), Accepted)


@pytest.mark.proves("R1.5")
async def test_busy_is_said_before_output_is(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(finished(one, "1.jpg"))
    assert await store.apply(asking()) == Busy(one.run_id)
    assert await store.apply(asking(on_conflict=OnConflict.JOIN)) == Joined(one.run_id)


@pytest.mark.proves("I16")
async def test_a_repeated_submission_is_answered_and_not_asked(store: SqlStore) -> None:
    submission = asking(idempotency_key="once")
    assert isinstance(await store.apply(submission), Accepted)
    one = await claimed_one(store, await instance(store))
    await store.apply(finished(one, "1.jpg"))
    await store.apply(Complete(claim_of(one)))
    assert await store.apply(asking(idempotency_key="once")) == Repeated(submission.run_id)


@pytest.mark.proves("R1.12")
async def test_nobody_to_ask_means_rejected_with_the_reason(store: SqlStore) -> None:
    await ended_with(store, "1.jpg")
    unattended = asking(is_unattended=True)
    assert await store.apply(unattended) == ExistingOutput(1, "1.jpg")
    assert await status(store, unattended.run_id) is RunStatus.REJECTED


@pytest.mark.proves("R1.12")
async def test_in_one_batch_a_start_sees_what_was_made_and_dropped(store: SqlStore) -> None:
    one = await running(store)
    first, second = asking(), asking()
    drop = RemoveFileRecords(key=Key("ann"), data_id=DATA, owners=(("1.jpg", one.run_id),))
    claim = Claim(one.run_id, one.token)
    answers = await together(store, finished(one, "1.jpg"), Complete(claim), first, drop, second)
    assert answers[2] == ExistingOutput(1, "1.jpg")
    assert isinstance(answers[4], Accepted)


@pytest.mark.proves("I19")
async def test_files_outlive_the_row_of_their_run(store: SqlStore, clock: FakeClock) -> None:
    run_id = await ended_with(store, "1.jpg")
    clock.advance(100)
    assert await store.apply(PruneRuns((run_id,), ended_before=clock())) == 1
    assert await store.apply(asking()) == ExistingOutput(1, "1.jpg")
