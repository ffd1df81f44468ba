"""What goes in comes out unchanged on every backend, or none takes it (I15)."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.batch_state import SavedKey
from headway.core.command.admin.save_key import DeleteKey, SaveKey
from headway.core.command.admin.set_lane import SetLane
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.inbox import ConsumeInbox
from headway.core.command.run.report import AppendEvents, JobEvent, SaveCheckpoint, SaveProgress
from headway.core.command.run.settle import Complete, Fail
from headway.core.command.run.submit import Busy
from headway.core.document import BYTE_COUNT_MAX, DEPTH_MAX, encode_document
from headway.core.errors import InvalidInput
from headway.core.ids import Key, LaneName, RunId
from headway.core.run.run import Claim
from headway.ports.run_reader import RunFilter
from headway.testing import FakeClock, a_claim, a_message, a_submit, claim_of, document
from tests.contract.scenes import (
    claimed,
    claimed_one,
    events,
    instance,
    raise_limit,
    record,
    running,
    submitted,
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
async def test_awkward_documents_come_back_unchanged_from_everywhere(
    store: SqlStore,
) -> None:
    """From all the places that hold one: each goes through its own column and statement."""
    await raise_limit(store, 1000)
    holder = await instance(store)
    for number, value in enumerate(AWKWARD):
        text = document(value)
        assert json.loads(text) == value
        key = f"key-{number}"
        saved = await store.apply(SaveKey(key=Key(key), job="mirror", params=text))
        assert isinstance(saved, SavedKey)
        one = await running(store, key, by=holder, params=value)
        claim = claim_of(one)
        await store.apply(SaveProgress(claim, text))
        await store.apply(SaveCheckpoint(claim, text))
        await store.apply(AppendEvents(claim, (JobEvent("run_log", text),)))
        await store.apply(a_message(one.run_id, value))
        items = await store.apply(ConsumeInbox(claim))
        assert items is not None
        await store.apply(Fail(claim, text) if number % 2 else Complete(claim, text))
        kept = await record(store, one.run_id)
        assert one.params == kept.params == kept.progress == kept.checkpoint == text
        assert (kept.error if number % 2 else kept.result) == text
        assert [item.payload for item in items] == [text]
        assert [item.payload for item in await store.runs.inbox(one.run_id)] == [text]
        told = {event.type: event.payload for event in await events(store, one.run_id)}
        assert told["run_progress"] == told["run_log"] == text
        if number % 2:
            assert json.loads(told["run_state_changed"])["error"] == value
    keys = {row.key: row.params async for row in store.runs.keys(limit=100)}
    assert keys == {f"key-{n}": document(value) for n, value in enumerate(AWKWARD)}


@pytest.mark.proves("I15")
@pytest.mark.parametrize("letter", ["x", "é", "🚂", "\\"])
async def test_a_document_of_exactly_the_limit_is_kept(store: SqlStore, letter: str) -> None:
    room = BYTE_COUNT_MAX - len('{"":""}')
    count, rest = divmod(room, len(json.dumps(letter, ensure_ascii=False).encode()) - 2)
    value = {"": letter * count + "x" * rest}
    text = document(value)
    assert len(text.encode()) == BYTE_COUNT_MAX
    run_id = await submitted(store, params=value)
    assert (await record(store, run_id)).params == text
    one = await claimed_one(store, await instance(store))
    assert one.params == text
    await store.apply(Complete(claim_of(one), text))
    assert (await record(store, run_id)).result == text
    with pytest.raises(InvalidInput, match=r"params: is 1,048,577 bytes; the limit is 1,048,576"):
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
@pytest.mark.parametrize("fault", UNSTORABLE)
def test_what_cannot_be_kept_is_refused_by_the_name_of_its_place(fault: str) -> None:
    value, place = UNSTORABLE[fault]
    with pytest.raises(InvalidInput) as refused:
        encode_document(value, field="params")
    assert refused.value.field.startswith(place)
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
@pytest.mark.parametrize("what", NAMED)
@pytest.mark.parametrize("wrong", WRONG_NAMES)
def test_a_name_that_no_database_could_keep_is_refused(what: str, wrong: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        NAMED[what](WRONG_NAMES[wrong])
    assert refused.value.field == what.partition(" ")[0]


@pytest.mark.proves("I15")
@pytest.mark.parametrize("wrong", ["NUL", "lone surrogate", "too long"])
@pytest.mark.parametrize(
    "make",
    [lambda by: a_submit(by=by), lambda by: a_message(RunId("run"), by=by)],
    ids=["submit", "message"],
)
def test_who_did_it_is_refused_likewise(make: Callable[[str], object], wrong: str) -> None:
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
@pytest.mark.parametrize("what", TIMED)
def test_a_time_that_is_none_is_refused(what: str, wrong: float) -> None:
    with pytest.raises(InvalidInput) as refused:
        TIMED[what](wrong)
    assert refused.value.field == what


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
    run_ids = [await submitted(store, key) for key in DIFFERENT_NAMES]
    for key, run_id in zip(DIFFERENT_NAMES, run_ids, strict=True):
        assert await store.apply(a_submit(key)) == Busy(run_id)
        wanted = RunFilter(key=Key(key))
        (found,) = [one async for one in store.runs.list_runs(wanted, limit=10)]
        assert (found.run.id, found.run.key) == (run_id, key)
    ones = await claimed(store, a_claim(await instance(store), count=100))
    assert [one.key for one in ones] == DIFFERENT_NAMES


@pytest.mark.proves("I15")
async def test_lanes_jobs_and_idempotency_keys_too(store: SqlStore) -> None:
    holder = await instance(store)
    for number, name in enumerate(DIFFERENT_NAMES):
        wanted = {"job": name, "lane": name, "idempotency_key": name}
        run_id = await submitted(store, f"key-{number}", **wanted)
        await store.apply(SaveKey(key=Key(name), job=name))
        await store.apply(SetLane(name=LaneName(name), max_concurrent=2))
        one = await claimed_one(store, holder, lane=name, jobs=[name], count=10)
        assert (one.run_id, one.job) == (run_id, name)
    saved = [row.key async for row in store.runs.keys(limit=100)]
    assert sorted(saved) == sorted(DIFFERENT_NAMES)


@pytest.mark.proves("I15")
async def test_names_are_trimmed(store: SqlStore, clock: FakeClock) -> None:
    """Or ` ann ` would be another key than `ann` on some databases, and the same on others."""
    wanted = a_submit(" ann\t", job=" mirror ", lane="\nmain ", idempotency_key=" once ")
    await store.apply(wanted)
    run = (await record(store, wanted.run_id)).run
    assert (run.key, run.job, run.lane) == ("ann", "mirror", "main")
    assert await store.apply(a_submit("ann  ")) == Busy(wanted.run_id)
    assert await store.apply(a_submit("ann")) == Busy(wanted.run_id)
    saved = await store.apply(SaveKey(key=Key(" bob "), job=" mirror "))
    assert saved == SavedKey(Key("bob"), "mirror", "{}", 2, clock())
    assert await store.apply(DeleteKey(Key("bob "))) is True
