"""Every backend returns a document unchanged, or all backends refuse it (I15)."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.batch_state import SavedKey
from headway.core.command.admin.lane_limits import SetLane
from headway.core.command.admin.save_key import DeleteKey, SaveKey
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.inbox import ConsumeInbox
from headway.core.command.run.report import AppendEvents, JobEvent, SaveCheckpoint, SaveProgress
from headway.core.command.run.settle import Complete, Fail
from headway.core.command.run.submit import Busy
from headway.core.document import BYTE_COUNT_MAX, DEPTH_MAX, Document, encode_document
from headway.core.errors import InvalidInput
from headway.core.ids import Key, LaneName, RunId
from headway.core.run.run import Claim
from headway.ports.run_reader import RunFilter
from headway.testing import FakeClock, a_claim, a_message, a_submit, claim_of, document
from tests.contract.scenes import (
    claim_run,
    claim_runs,
    raise_limit,
    read_events,
    read_record,
    register_instance,
    start_run,
    submit_run,
)


def nested(levels: int) -> Any:
    value: Any = "bottom"
    for level in range(levels):
        value = [value] if level % 2 else {"down": value}
    return value


AWKWARD: list[Any] = [
    [None],
    True,
    "",
    [],
    {"": {"": [""]}},
    [2**53 + 1, -(2**63), 2**64, 10**400, -0.0, 1e-320, 1.7976931348623157e308, 0.1],
    "astral: 🚂 𝄞 \U0010ffff; combining: e\u0301 é; RTL: \u202eשלום مرحبا\u202c",  # noqa: RUF001
    'escapes: " \\ / \b \f \n \r \t \u007f \u0001 \u001f \u2028 \u2029 \ufeff \ufffd \\u0000',
    "SQL: '; DROP TABLE runs; -- %s %(x)s :x ? $1 \\' `` \"\" {} %%",
    {"ключ": "значение", "鍵": "値", "a.b": 1, "$params": 2, " spaced ": " kept "},
    {"duplicates in case": {"Ann": 1, "ann": 2, "é": 3, "e\u0301": 4}},
    nested(DEPTH_MAX),
    [nested(DEPTH_MAX - 1), nested(DEPTH_MAX - 1), "["] * 3,
    [[[]]] * 100,
]


@pytest.mark.proves("I15")
async def test_unusual_documents_are_read_unchanged_from_every_column(
    store: SqlStore,
) -> None:
    """Each field that holds a document has its own column and statement."""
    await raise_limit(store, 1000)
    holder = await register_instance(store)
    for number, value in enumerate(AWKWARD):
        text = document(value)
        assert json.loads(text) == value
        key = f"key-{number}"
        saved = await store.apply(SaveKey(key=Key(key), job="mirror", params=text))
        assert isinstance(saved, SavedKey)
        run = await start_run(store, key, by=holder, params=value)
        claim = claim_of(run)
        progress = Document(f'{{"value":{text}}}')
        await store.apply(SaveProgress(claim, progress))
        await store.apply(SaveCheckpoint(claim, text))
        await store.apply(AppendEvents(claim, (JobEvent("note", text),)))
        await store.apply(a_message(run.run_id, value))
        items = await store.apply(ConsumeInbox(claim))
        assert items is not None
        await store.apply(Fail(claim, text) if number % 2 else Complete(claim, text))
        stored = await read_record(store, run.run_id)
        assert run.params == stored.params == stored.checkpoint == text
        assert stored.progress == progress
        assert (stored.error if number % 2 else stored.result) == text
        assert [item.payload for item in items] == [text]
        assert [item.payload for item in await store.runs.inbox(run.run_id)] == [text]
        reported = {event.type: event.payload for event in await read_events(store, run.run_id)}
        assert (reported["run_progress"], reported["note"]) == (progress, text)
        if number % 2:
            assert json.loads(reported["run_state_changed"])["error"] == value
    keys = {row.key: row.params async for row in store.runs.keys(limit=100)}
    assert keys == {f"key-{n}": document(value) for n, value in enumerate(AWKWARD)}


@pytest.mark.proves("I15")
@pytest.mark.parametrize("letter", ["x", "é", "🚂", "\\"])
async def test_document_of_exactly_the_limit_is_stored(store: SqlStore, letter: str) -> None:
    room = BYTE_COUNT_MAX - len('{"":""}')
    count, rest = divmod(room, len(json.dumps(letter, ensure_ascii=False).encode()) - 2)
    value = {"": letter * count + "x" * rest}
    text = document(value)
    assert len(text.encode()) == BYTE_COUNT_MAX
    run_id = await submit_run(store, params=value)
    assert (await read_record(store, run_id)).params == text
    run = await claim_run(store, await register_instance(store))
    assert run.params == text
    await store.apply(Complete(claim_of(run), text))
    assert (await read_record(store, run_id)).result == text
    with pytest.raises(InvalidInput, match=r"params is 1,048,577 bytes; the limit is 1,048,576"):
        a_submit(params={"": value[""] + "x"})


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
UNSTORABLE: dict[str, tuple[Any, str]] = {
    "nan": ({"a": [1, math.nan]}, "params.a[1]"),
    "infinity": ([math.inf], "params[0]"),
    "minus infinity": (-math.inf, "params"),
    "lone surrogate": ({"a": {"b": "\ud800"}}, "params.a.b"),
    "lone surrogate in a name": ({"a": {"\udfff": 1}}, "params.a"),
    "NUL": ([["ok", "a\0b"]], "params[0][1]"),
    "NUL in a name": ({"\0": 1}, "params"),
    "too deep": (nested(DEPTH_MAX + 1), "params.down[0].down"),
    "endless": (CIRCLE, "params[0][0]"),
    "bytes": ({"a": b"x"}, "params.a"),
    "a set": ({"a": {1}}, "params.a"),
    "an object": (object(), "params"),
    "a number as a name": ({"a": [{1: "one"}]}, "params.a[0]"),
    "nothing as a name": ({None: 1}, "params"),
    "a number and its text as names": ({1: "a", "1": "b"}, "params"),
    "too large": ("x" * BYTE_COUNT_MAX, "params"),
    "too many digits": (10**5000, "params"),
}


@pytest.mark.proves("I15")
@pytest.mark.parametrize("case", UNSTORABLE)
def test_document_that_cannot_be_stored_is_refused_with_its_path(case: str) -> None:
    value, path = UNSTORABLE[case]
    with pytest.raises(InvalidInput) as refused:
        encode_document(value, field="params")
    assert refused.value.field.startswith(path)
    assert len(str(refused.value)) < 2_000


# Names.

WRONG_NAMES = {
    "empty": "",
    "blank": " \t\n\u00a0\u2003",
    "NUL": "a\0b",
    "lone surrogate": "a\ud800b",
    "too long": "k" * 10_000,
    "one too long": "k" * 256,
}
CLAIM = Claim(RunId("run"), "token")
NAMED: dict[str, Callable[[Any], object]] = {
    "key": lambda name: a_submit(key=name),
    "lane": lambda name: a_submit(lane=name),
    "job": lambda name: a_submit(job=name),
    "idempotency_key": lambda name: a_submit(idempotency_key=name),
    "key of a row": lambda name: SaveKey(key=name, job="mirror"),
    "job of a row": lambda name: SaveKey(key=Key("ann"), job=name),
    "key of no row": DeleteKey,
    "name of a lane": lambda name: SetLane(name=name),
    "kind": lambda name: a_message(RunId("run"), kind=name),
    "call_id": lambda name: a_message(RunId("run"), call_id=name),
    "type": lambda name: JobEvent(name, document(None)),
}


@pytest.mark.proves("I15")
@pytest.mark.parametrize("case", NAMED)
@pytest.mark.parametrize("wrong", WRONG_NAMES)
def test_name_that_no_database_could_store_is_refused(case: str, wrong: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        NAMED[case](WRONG_NAMES[wrong])
    assert refused.value.field == case.partition(" ")[0]


@pytest.mark.proves("I15")
@pytest.mark.parametrize("wrong", ["NUL", "lone surrogate", "too long"])
@pytest.mark.parametrize(
    "make",
    [lambda by: a_submit(by=by), lambda by: a_message(RunId("run"), by=by)],
    ids=["submit", "message"],
)
def test_invalid_actor_is_refused(make: Callable[[str], object], wrong: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make(WRONG_NAMES[wrong])
    assert refused.value.field == "by"


TIMED: dict[str, Callable[[float], object]] = {
    "timeout_s": lambda seconds: a_submit(timeout_s=seconds),
    "queue_timeout_s": lambda seconds: a_submit(queue_timeout_s=seconds),
    "grace_s": lambda seconds: RequestCancel(run_id=RunId("run"), grace_s=seconds),
}


@pytest.mark.proves("I15")
@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, 1e300])
@pytest.mark.parametrize("case", TIMED)
def test_invalid_duration_is_refused(case: str, wrong: float) -> None:
    with pytest.raises(InvalidInput) as refused:
        TIMED[case](wrong)
    assert refused.value.field == case


DIFFERENT_NAMES = [
    "ann",
    "Ann",
    "ANN",
    "é",
    "e\u0301",
    "ß",
    "ss",
    "ａｎｎ",  # noqa: RUF001
    "a\u00adnn",
    "i",
    "ı",  # noqa: RUF001
    "İ",
    "a\u200bnn",
    "'; DROP TABLE runs; --",
    '"%s" \\ `%(x)s` :x ? $1 {} [*]',
    "_nn",
    "%",
    "🚂" * 255,
    "🚂" * 254 + "🚃",
    "k" * 255,
    "a b",
    "a  b",
    "1",
    "01",
    "1.0",
    "null",
]


@pytest.mark.proves("I15")
async def test_keys_are_compared_byte_by_byte(store: SqlStore) -> None:
    await raise_limit(store, 100)
    run_ids = [await submit_run(store, key) for key in DIFFERENT_NAMES]
    for key, run_id in zip(DIFFERENT_NAMES, run_ids, strict=True):
        assert await store.apply(a_submit(key)) == Busy(run_id)
        run_filter = RunFilter(key=Key(key))
        (rows,) = [record async for record in store.runs.list_runs(run_filter, limit=10)]
        assert (rows.run.id, rows.run.key) == (run_id, key)
    runs = await claim_runs(store, a_claim(await register_instance(store), count=100))
    assert [run.key for run in runs] == DIFFERENT_NAMES


@pytest.mark.proves("I15")
async def test_lanes_jobs_and_idempotency_keys_are_compared_byte_by_byte(store: SqlStore) -> None:
    holder = await register_instance(store)
    for number, name in enumerate(DIFFERENT_NAMES):
        options = {"job": name, "lane": name, "idempotency_key": name}
        run_id = await submit_run(store, f"key-{number}", **options)
        await store.apply(SaveKey(key=Key(name), job=name))
        await store.apply(SetLane(name=LaneName(name), max_concurrent=2))
        run = await claim_run(store, holder, lane=name, jobs=[name], count=10)
        assert (run.run_id, run.job) == (run_id, name)
    saved = [row.key async for row in store.runs.keys(limit=100)]
    assert sorted(saved) == sorted(DIFFERENT_NAMES)


@pytest.mark.proves("I15")
async def test_names_are_trimmed(store: SqlStore, clock: FakeClock) -> None:
    """Otherwise ` ann ` and `ann` would be different keys on some databases only."""
    submission = a_submit(" ann\t", job=" mirror ", lane="\nmain ", idempotency_key=" once ")
    await store.apply(submission)
    run = (await read_record(store, submission.run_id)).run
    assert (run.key, run.job, run.lane) == ("ann", "mirror", "main")
    assert await store.apply(a_submit("ann  ")) == Busy(submission.run_id)
    assert await store.apply(a_submit("ann")) == Busy(submission.run_id)
    saved = await store.apply(SaveKey(key=Key(" bob "), job=" mirror "))
    assert saved == SavedKey(Key("bob"), "mirror", "{}", 2, clock())
    assert await store.apply(DeleteKey(Key("bob "))) is True
