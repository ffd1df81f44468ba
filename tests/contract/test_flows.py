"""Flows in versions, and what a step of a task writes, on every backend."""

import asyncio
import json
from uuid import uuid4

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.prune import PruneRuns
from headway.core.command.flow.advance import Advanced, AdvanceFlow, ContinueTask, EndTask, ParkTask
from headway.core.command.flow.load_task import LoadTask, ReadTaskUpdates, StoredTask, TaskUpdates
from headway.core.command.flow.publish import FlowSaved, FlowStart, PublishFlow, StartFlow
from headway.core.command.flow.shared_state import (
    AlreadyAnswered,
    PostSignal,
    SharedStateFull,
    SharedStateUsage,
)
from headway.core.command.protocol import RevisionMismatch
from headway.core.command.run.cancel import CancelResult, RequestCancel
from headway.core.command.run.claim import ClaimedRun, ClaimRuns
from headway.core.command.run.inbox import NotActive, Posted
from headway.core.command.run.settle import Settled, TooLate
from headway.core.command.run.submit import Accepted, Busy, Submit
from headway.core.document import NULL, Document, encode_document
from headway.core.flow.engine.records import (
    FLOW_JOB,
    EndedChild,
    NodeRunRow,
    SharedValue,
    VersionStatus,
)
from headway.core.ids import FLOW_LANE, InstanceId, Instant, Key, RunId
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.ports.flow_reader import TaskFilter
from headway.testing import FakeClock, an_instance

RUN = RunId("task-1")
CURSOR = '{"frames":[{"node":"a"}],"rows":0,"last":""}'


def a_publish(definition: str = "{}", **more: object) -> PublishFlow:
    given = {
        "name": "orders",
        "flow_id": "flow-1",
        "definition": Document(definition),
        "digest": str(hash(definition)),
    }
    return PublishFlow(**(given | more))  # type: ignore[arg-type]


NOTHING = SharedStateUsage(0, 0)


def a_signal(
    key: str, value: str, *, beside: SharedStateUsage = NOTHING, asked_generation: int | None = None
) -> PostSignal:
    return PostSignal(
        run_id=RUN, key=key, value=Document(value), usage=beside, asked_generation=asked_generation
    )


def a_start(run_id: RunId = RUN, *, key: str = "ann") -> StartFlow:
    submission = Submit(run_id=run_id, key=Key(key), job=FLOW_JOB, lane=FLOW_LANE)
    return StartFlow(
        submission=submission,
        start=FlowStart(
            flow="orders",
            version=1,
            node="a",
            cursor=Document(CURSOR),
            shared=(('"x "', "1"),),
        ),
    )


def a_row(seq: int) -> NodeRunRow:
    return NodeRunRow(
        RUN, seq, "a", '["a"]', None, 1, "ok", "{}", "1", "2", "", "default",
        Instant(5), Instant(6), "w1", "http://127.0.0.1:1", 1,
    )  # fmt: skip


async def claimed(store: SqlStore) -> Claim:
    name = uuid4().hex
    await store.apply(an_instance(name))
    got = await store.apply(
        ClaimRuns(
            lane=FLOW_LANE,
            instance_id=InstanceId(name),
            jobs=frozenset({FLOW_JOB}),
            count=1,
            nonce=name,
        )
    )
    assert isinstance(got, tuple)
    (one,) = got
    assert isinstance(one, ClaimedRun)
    assert json.loads(one.checkpoint or "null")["version"] == 1
    return Claim(one.run_id, one.token)


def an_advance(
    claim: Claim, then: ContinueTask | ParkTask | EndTask, **more: object
) -> AdvanceFlow:
    columns = {"node": "b", "standing": CURSOR, "waits_for": None}
    given = {"claim": claim, "parent_id": None, "columns": columns, "then": then}
    return AdvanceFlow(**(given | more))  # type: ignore[arg-type]


@pytest.mark.proves("R5.1")
async def test_a_flow_is_published_in_versions_and_equal_ones_are_one(store: SqlStore) -> None:
    assert await store.apply(a_publish(definition="", flow_id="flow-0")) == FlowSaved(
        "flow-0", 1, "ver-0-1", 1, is_new=True
    )
    again = await store.apply(a_publish(definition=""))
    assert again == FlowSaved("flow-0", 1, "ver-0-1", 1, is_new=False)
    second = await store.apply(a_publish('{"b":1}'))
    assert second == FlowSaved("flow-0", 2, "ver-0-2", 2, is_new=True)
    assert await store.apply(a_publish('{"c":1}', expected_revision=1)) == RevisionMismatch(2)
    assert await store.apply(
        a_publish('{"c":1}', name="new", expected_revision=1)
    ) == RevisionMismatch(0)
    draft = await store.apply(a_publish('{"d":1}', status=VersionStatus.DRAFT, version=9))
    assert draft == FlowSaved("flow-0", 9, "ver-0-9", 3, is_new=True)
    flow = await store.flows.flow("orders")
    assert flow is not None
    assert (flow.latest, flow.published, flow.revision) == (9, 2, 3)
    assert flow == await store.flows.flow_by_id("flow-0")
    assert [flow] == await store.flows.flows(limit=10)
    assert [one.version for one in await store.flows.versions("orders", limit=9)] == [9, 2, 1]
    older = await store.flows.versions("orders", limit=1, before=9)
    assert [one.version for one in older] == [2]
    version = await store.flows.version("orders", 2)
    assert version is not None
    assert (version.definition, version.status) == ('{"b":1}', "published")
    assert await store.flows.version("orders", 3) is None


@pytest.mark.proves("R5.1")
async def test_a_name_alone_makes_a_flow_without_a_version(store: SqlStore) -> None:
    made = await store.apply(a_publish(definition=None, digest=""))  # type: ignore[arg-type]
    assert made == FlowSaved("flow-1", 0, "ver-1-0", 1, is_new=True)
    again = await store.apply(a_publish(definition=None, digest="", flow_id="flow-2"))  # type: ignore[arg-type]
    assert again == FlowSaved("flow-1", 0, "", 1, is_new=False)


@pytest.mark.proves("R5.4")
async def test_a_step_is_one_transaction_under_the_claim(store: SqlStore, clock: FakeClock) -> None:
    """I2: and one whose claim is void writes nothing at all."""
    assert isinstance(await store.apply(a_start()), Accepted)
    assert isinstance(await store.apply(a_start(RunId("task-2"))), Busy)
    claim = await claimed(store)
    shared = SharedValue(RUN, '"x"', "2")
    step = an_advance(
        claim,
        ContinueTask(),
        rows=(a_row(1),),
        shared_added=(shared,),
        shared_changed=(SharedValue(RUN, '"x "', "3"),),
    )
    assert await store.apply(step) == Advanced(0, clock())
    late = an_advance(
        Claim(RUN, "another"), ContinueTask(), rows=(a_row(2),), shared_added=(shared,)
    )
    assert await store.apply(late) is False
    kept = await store.flows.stored_task(RUN)
    assert kept is not None
    assert dict(kept.shared) == {"x": "2", "x ": "3"}
    assert [row.seq async for row in store.flows.node_runs(RUN, limit=9)] == [1]
    assert (kept.flow_run.node, kept.flow_run.version) == ("b", 1)
    gone = an_advance(claim, EndTask(None, Document('{"x":2}')), shared_removed=((RUN, '"x "'),))
    assert await store.apply(gone) == Settled(RunStatus.SUCCEEDED)
    assert await store.apply(gone) == TooLate(RunStatus.SUCCEEDED)
    record = await store.runs.run(RUN)
    assert record is not None
    assert record.result == '{"x":2}'
    kept = await store.flows.stored_task(RUN)
    assert kept is not None
    assert dict(kept.shared) == {"x": "2"}


@pytest.mark.proves("R5.11")
async def test_a_signal_is_kept_and_wakes_who_is_parked(store: SqlStore) -> None:
    await store.apply(a_start())
    signal = a_signal(" go ", "1")
    early = await store.apply(signal)
    assert isinstance(early, Posted)
    claim = await claimed(store)
    news = await store.apply(ReadTaskUpdates(claim))
    assert isinstance(news, TaskUpdates)
    (item,) = news.unread
    assert json.loads(item.payload) == {"key": "go", "value": 1}
    parked = an_advance(claim, ParkTask("event", None, Document("{}")))
    assert isinstance(await store.apply(parked), Advanced)
    record = await store.runs.run(RUN)
    assert record is not None
    assert record.run.queue_rank == 0  # It did not miss what it had not read.
    claim = await claimed(store)
    taken = an_advance(
        claim, ParkTask("event", None, Document("{}")), consumed=(early.seq,),
        columns={"waits_for": "event"},
    )  # fmt: skip
    assert isinstance(await store.apply(taken), Advanced)
    record = await store.runs.run(RUN)
    assert record is not None
    assert record.run.is_parked
    assert record.run.unread_count == 0
    kept = await store.flows.stored_task(RUN)
    assert kept is not None
    assert list(kept.unread) == []
    assert [one.flow_run.run_id for one in await _waiting(store, "event")] == [RUN]
    await store.apply(signal)
    record = await store.runs.run(RUN)
    assert record is not None
    assert not record.run.is_parked


@pytest.mark.proves("I2")
async def test_a_driver_reads_its_task_under_its_claim_and_with_what_came_in(
    store: SqlStore, clock: FakeClock
) -> None:
    """R5.4: of a node that calls, also the node runs since it was entered; else none."""
    await store.apply(a_start())
    claim = await claimed(store)
    entered = '{"frames":[{"node":"b","at":1,"since":1,"launched":3}],"rows":2,"last":""}'
    columns = {"node": "b", "standing": entered, "waits_for": None}
    await store.apply(an_advance(claim, ContinueTask(), rows=(a_row(1), a_row(2)), columns=columns))
    signal = a_signal("go", "1")
    posted, kept = await asyncio.gather(store.apply(signal), store.apply(LoadTask(claim)))
    assert isinstance(posted, Posted)
    assert isinstance(kept, StoredTask)
    assert dict(kept.shared) == {"x ": "1"}
    assert [row.seq for row in kept.rows] == [2]
    assert [item.seq for item in kept.unread] == [posted.seq]
    assert (kept.flow_run.standing, kept.now) == (entered, clock())
    # What a step of the same batch takes in is not told once more.
    taken = an_advance(claim, ContinueTask(), consumed=(posted.seq,))
    _, news = await asyncio.gather(store.apply(taken), store.apply(ReadTaskUpdates(claim)))
    assert news == TaskUpdates(unread=())
    kept = await store.apply(LoadTask(claim))
    assert isinstance(kept, StoredTask)
    assert (list(kept.rows), list(kept.unread)) == ([], [])
    stale = Claim(RUN, "another")
    assert await store.apply(LoadTask(stale)) is False
    assert await store.apply(ReadTaskUpdates(stale)) is False


@pytest.mark.proves("R5.2")
async def test_who_has_children_hears_how_those_that_are_over_have_ended(
    store: SqlStore,
) -> None:
    await store.apply(a_start())
    claim = await claimed(store)
    good, bad, open_one, gone = (RunId(f"child-{number}") for number in range(4))
    for child in (good, bad, open_one):
        await store.apply(a_start(child, key=child))
    ends = {good: EndTask(None, Document('{"x":2}')), bad: EndTask(Document('"no"'), NULL)}
    for _ in range(3):
        held = await claimed(store)
        if held.run_id in ends:
            await store.apply(an_advance(held, ends[held.run_id]))
    news = await store.apply(ReadTaskUpdates(claim, (good, bad, open_one, gone)))
    assert isinstance(news, TaskUpdates)
    assert news.ended_children == {
        good: EndedChild(RunStatus.SUCCEEDED, '{"x":2}', None),
        bad: EndedChild(RunStatus.FAILED, None, '"no"'),
    }


async def _waiting(store: SqlStore, kind: str) -> list:  # type: ignore[type-arg]
    return [task async for task in store.flows.tasks(TaskFilter(waits_for=kind), limit=9)]


@pytest.mark.proves("R5.11")
async def test_of_two_answers_to_one_question_the_first_stands(store: SqlStore) -> None:
    await store.apply(a_start())
    claim = await claimed(store)
    await store.apply(an_advance(claim, ParkTask("approval", None, Document("{}"))))
    yes = a_signal("ok", "true", asked_generation=1)
    assert isinstance(await store.apply(yes), Posted)
    assert await store.apply(yes) == AlreadyAnswered()
    await claimed(store)
    assert await store.apply(yes) == AlreadyAnswered()


@pytest.mark.proves("I15")
async def test_signals_that_find_room_alone_are_not_taken_together(store: SqlStore) -> None:
    """What came after the look counts, in the same batch too, and taken in or not."""
    await store.apply(a_start())
    claim = await claimed(store)
    shared = await store.flows.shared_state(RUN)
    large = encode_document("x" * 600_000, field="value")
    seen = SharedStateUsage(600_000, shared.seq)
    one, two = a_signal("one", large, beside=seen), a_signal("two", large, beside=seen)
    taken, refused = await asyncio.gather(store.apply(one), store.apply(two))
    assert isinstance(taken, Posted)
    assert isinstance(refused, SharedStateFull)
    assert refused.byte_count > 1_200_000
    assert refused == await store.apply(two)
    takes, again = await asyncio.gather(
        store.apply(an_advance(claim, ContinueTask(), consumed=(taken.seq,))), store.apply(two)
    )
    assert isinstance(takes, Advanced)
    assert refused == again == await store.apply(two)
    later = SharedStateUsage(600_000, (await store.flows.shared_state(RUN)).seq)
    assert isinstance(await store.apply(a_signal("two", large, beside=later)), Posted)


@pytest.mark.proves("R5.11")
@pytest.mark.parametrize("is_over", [True, False])
async def test_a_signal_for_what_is_over_or_is_no_task_is_refused(
    store: SqlStore, is_over: bool
) -> None:
    if is_over:
        await store.apply(a_start())
        assert await store.apply(RequestCancel(run_id=RUN)) is CancelResult.CANCELED
    else:
        await store.apply(Submit(run_id=RUN, key=Key("ann"), job="import"))
    assert await store.apply(a_signal("go", NULL)) == NotActive()


async def test_dsgn_4_a_task_that_is_pruned_takes_its_parts_with_it(
    store: SqlStore, clock: FakeClock
) -> None:
    await store.apply(a_start())
    claim = await claimed(store)
    await store.apply(an_advance(claim, EndTask(None, NULL), rows=(a_row(1),)))
    clock.advance(1)
    assert await store.apply(PruneRuns((RUN,), clock())) == 1
    assert await store.flows.task(RUN) is None
    assert await store.flows.stored_task(RUN) is None
    assert [row async for row in store.flows.node_runs(RUN, limit=9)] == []
    assert [task async for task in store.flows.tasks(TaskFilter(), limit=9)] == []


@pytest.mark.proves("R5.6")
async def test_tasks_are_read_page_by_page_those_that_moved_last_first(
    store: SqlStore, clock: FakeClock
) -> None:
    for number in range(6):  # Two at each instant.
        run_id = RunId(f"task-{number}")
        await store.apply(a_start(run_id, key=run_id))
        clock.advance(number % 2)
    found, after = [], None
    while page := [task async for task in store.flows.tasks(TaskFilter(), limit=2, after=after)]:
        found += [task.record.run.id for task in page]
        after = page[-1].cursor
    assert found == [f"task-{number}" for number in reversed(range(6))]


@pytest.mark.proves("I20")
async def test_tasks_are_read_a_few_at_once_in_the_order_of_the_first_look(
    store: SqlStore, clock: FakeClock
) -> None:
    """One that moves meanwhile is neither missed nor told twice, unless it is wanted no more."""
    ids = [RunId(f"task-{number}") for number in range(40)]
    for run_id in reversed(ids):
        await store.apply(a_start(run_id, key=run_id))
        clock.advance(1)
    active = store.flows.tasks(TaskFilter(statuses=[RunStatus.QUEUED]), limit=40)
    every = store.flows.tasks(TaskFilter(), limit=39)
    first = (await anext(active), await anext(every))
    assert await store.apply(RequestCancel(run_id=ids[30])) is CancelResult.CANCELED
    assert [task.flow_run.run_id async for task in active] == [*ids[1:30], *ids[31:]]
    rest = [task async for task in every]
    assert [task.flow_run.run_id for task in rest] == ids[1:39]
    assert rest[29].record.run.status is RunStatus.CANCELED
    places = [task.cursor for task in (first[1], *rest)]
    assert places == sorted(places, reverse=True)


@pytest.mark.proves("I20")
async def test_for_a_task_that_is_wanted_no_more_another_is_read(
    store: SqlStore, clock: FakeClock
) -> None:
    """R5.6: a page that is asked for one more than it shows always knows whether there are more."""
    ids = [RunId(f"task-{number}") for number in range(60)]
    for run_id in reversed(ids):
        await store.apply(a_start(run_id, key=run_id))
        clock.advance(1)
    active = store.flows.tasks(TaskFilter(statuses=[RunStatus.QUEUED]), limit=40)
    found = [await anext(active)]
    for left in (20, 30, 39, 40):
        assert await store.apply(RequestCancel(run_id=ids[left])) is CancelResult.CANCELED
    found += [task async for task in active]
    told = [task.flow_run.run_id for task in found]
    assert told == [*ids[:20], *ids[21:30], *ids[31:39], *ids[41:44]]
    places = [task.cursor for task in found]
    assert places == sorted(places, reverse=True)


@pytest.mark.proves("I20")
async def test_node_runs_are_read_a_few_at_once(store: SqlStore, clock: FakeClock) -> None:
    await store.apply(a_start())
    rows = tuple(a_row(seq) for seq in range(1, 101))
    await store.apply(an_advance(await claimed(store), EndTask(None, NULL), rows=rows))
    for limit, after in ((100, 0), (99, 0), (32, 10), (5, 98), (1, 100)):
        found = [row.seq async for row in store.flows.node_runs(RUN, limit=limit, after_seq=after)]
        assert found == list(range(1, 101))[after : after + limit]
    reading = store.flows.node_runs(RUN, limit=100)
    await anext(reading)
    clock.advance(1)
    assert await store.apply(PruneRuns((RUN,), clock())) == 1
    assert len([row async for row in reading]) < 50  # The others had not been read before.
