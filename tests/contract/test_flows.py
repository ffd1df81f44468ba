"""Published versions of flows, and the writes of a step of a task, on every backend."""

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
    fields = {
        "name": "orders",
        "flow_id": "flow-1",
        "definition": Document(definition),
        "digest": str(hash(definition)),
    }
    return PublishFlow(**(fields | more))  # type: ignore[arg-type]


NO_SHARED_STATE = SharedStateUsage(0, 0)


def a_signal(
    key: str,
    value: str,
    *,
    beside: SharedStateUsage = NO_SHARED_STATE,
    asked_generation: int | None = None,
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


async def claim_task(store: SqlStore) -> Claim:
    name = uuid4().hex
    await store.apply(an_instance(name))
    answer = await store.apply(
        ClaimRuns(
            lanes=(FLOW_LANE,),
            instance_id=InstanceId(name),
            jobs=frozenset({FLOW_JOB}),
            count=1,
            nonce=name,
        )
    )
    assert isinstance(answer, tuple)
    (run,) = answer
    assert isinstance(run, ClaimedRun)
    assert json.loads(run.checkpoint or "null")["version"] == 1
    return Claim(run.run_id, run.token)


def an_advance(
    claim: Claim, next_action: ContinueTask | ParkTask | EndTask, **more: object
) -> AdvanceFlow:
    columns = {"node": "b", "standing": CURSOR, "waits_for": None}
    required = {"claim": claim, "parent_id": None, "next_action": next_action}
    return AdvanceFlow(**({**required, "columns": columns} | more))  # type: ignore[arg-type]


@pytest.mark.proves("R5.1")
async def test_equal_definitions_are_one_version_of_a_flow(store: SqlStore) -> None:
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
    assert [version.version for version in await store.flows.versions("orders", limit=9)] == [
        9,
        2,
        1,
    ]
    older = await store.flows.versions("orders", limit=1, before=9)
    assert [version.version for version in older] == [2]
    version = await store.flows.version("orders", 2)
    assert version is not None
    assert (version.definition, version.status) == ('{"b":1}', "published")
    assert await store.flows.version("orders", 3) is None


@pytest.mark.proves("R5.1")
async def test_flow_without_a_definition_has_no_version(store: SqlStore) -> None:
    created = await store.apply(a_publish(definition=None, digest=""))  # type: ignore[arg-type]
    assert created == FlowSaved("flow-1", 0, "ver-1-0", 1, is_new=True)
    again = await store.apply(a_publish(definition=None, digest="", flow_id="flow-2"))  # type: ignore[arg-type]
    assert again == FlowSaved("flow-1", 0, "", 1, is_new=False)


@pytest.mark.proves("R5.4")
async def test_step_is_written_in_one_transaction_under_the_claim(
    store: SqlStore, clock: FakeClock
) -> None:
    """A step whose claim is stale writes nothing at all (I2)."""
    assert isinstance(await store.apply(a_start()), Accepted)
    assert isinstance(await store.apply(a_start(RunId("task-2"))), Busy)
    claim = await claim_task(store)
    shared = SharedValue(RUN, '"x"', "2")
    step = an_advance(
        claim,
        ContinueTask(),
        node_run_rows=(a_row(1),),
        shared_added=(shared,),
        shared_changed=(SharedValue(RUN, '"x "', "3"),),
    )
    assert await store.apply(step) == Advanced(0, clock())
    stale_step = an_advance(
        Claim(RUN, "another"), ContinueTask(), node_run_rows=(a_row(2),), shared_added=(shared,)
    )
    assert await store.apply(stale_step) is False
    stored = await store.flows.stored_task(RUN)
    assert stored is not None
    assert dict(stored.shared) == {"x": "2", "x ": "3"}
    assert [row.seq async for row in store.flows.node_runs(RUN, limit=9)] == [1]
    assert (stored.flow_run.node, stored.flow_run.version) == ("b", 1)
    last_step = an_advance(
        claim, EndTask(None, Document('{"x":2}')), shared_removed=((RUN, '"x "'),)
    )
    assert await store.apply(last_step) == Settled(RunStatus.SUCCEEDED)
    assert await store.apply(last_step) == TooLate(RunStatus.SUCCEEDED)
    record = await store.runs.run(RUN)
    assert record is not None
    assert record.result == '{"x":2}'
    stored = await store.flows.stored_task(RUN)
    assert stored is not None
    assert dict(stored.shared) == {"x": "2"}


@pytest.mark.proves("R5.11")
async def test_signal_is_stored_and_wakes_a_parked_run(store: SqlStore) -> None:
    await store.apply(a_start())
    signal = a_signal(" go ", "1")
    answer = await store.apply(signal)
    assert isinstance(answer, Posted)
    claim = await claim_task(store)
    updates = await store.apply(ReadTaskUpdates(claim))
    assert isinstance(updates, TaskUpdates)
    (item,) = updates.unread
    assert json.loads(item.payload) == {"key": "go", "value": 1}
    parked = an_advance(claim, ParkTask("event", None, Document("{}")))
    assert isinstance(await store.apply(parked), Advanced)
    record = await store.runs.run(RUN)
    assert record is not None
    assert record.run.queue_rank == 0  # The signal arrived after its last read, so it is queued.
    claim = await claim_task(store)
    step = an_advance(
        claim, ParkTask("event", None, Document("{}")), consumed_seqs=(answer.seq,),
        columns={"waits_for": "event"},
    )  # fmt: skip
    assert isinstance(await store.apply(step), Advanced)
    record = await store.runs.run(RUN)
    assert record is not None
    assert record.run.is_parked
    assert record.run.unread_count == 0
    stored = await store.flows.stored_task(RUN)
    assert stored is not None
    assert list(stored.unread) == []
    assert [task.flow_run.run_id for task in await _waiting(store, "event")] == [RUN]
    await store.apply(signal)
    record = await store.runs.run(RUN)
    assert record is not None
    assert not record.run.is_parked


@pytest.mark.proves("I2")
async def test_driver_with_a_current_claim_loads_its_task_and_the_unread_signals(
    store: SqlStore, clock: FakeClock
) -> None:
    """Node runs since the node was entered are loaded only if the node makes calls (R5.4)."""
    await store.apply(a_start())
    claim = await claim_task(store)
    entered = '{"frames":[{"node":"b","at":1,"since":1,"launched":3}],"rows":2,"last":""}'
    columns = {"node": "b", "standing": entered, "waits_for": None}
    await store.apply(
        an_advance(claim, ContinueTask(), node_run_rows=(a_row(1), a_row(2)), columns=columns)
    )
    signal = a_signal("go", "1")
    posted, stored = await asyncio.gather(store.apply(signal), store.apply(LoadTask(claim)))
    assert isinstance(posted, Posted)
    assert isinstance(stored, StoredTask)
    assert dict(stored.shared) == {"x ": "1"}
    assert [row.seq for row in stored.rows] == [2]
    assert [item.seq for item in stored.unread] == [posted.seq]
    assert (stored.flow_run.standing, stored.now) == (entered, clock())
    # A signal that a step of the same batch consumes is not returned again.
    step = an_advance(claim, ContinueTask(), consumed_seqs=(posted.seq,))
    _, updates = await asyncio.gather(store.apply(step), store.apply(ReadTaskUpdates(claim)))
    assert updates == TaskUpdates(unread=())
    stored = await store.apply(LoadTask(claim))
    assert isinstance(stored, StoredTask)
    assert (list(stored.rows), list(stored.unread)) == ([], [])
    stale = Claim(RUN, "another")
    assert await store.apply(LoadTask(stale)) is False
    assert await store.apply(ReadTaskUpdates(stale)) is False


@pytest.mark.proves("R5.2")
async def test_parent_reads_the_outcomes_of_its_children(
    store: SqlStore,
) -> None:
    await store.apply(a_start())
    claim = await claim_task(store)
    good, bad, open_one, missing = (RunId(f"child-{number}") for number in range(4))
    for child in (good, bad, open_one):
        await store.apply(a_start(child, key=child))
    ends = {good: EndTask(None, Document('{"x":2}')), bad: EndTask(Document('"no"'), NULL)}
    for _ in range(3):
        claim_of_child = await claim_task(store)
        if claim_of_child.run_id in ends:
            await store.apply(an_advance(claim_of_child, ends[claim_of_child.run_id]))
    updates = await store.apply(ReadTaskUpdates(claim, (good, bad, open_one, missing)))
    assert isinstance(updates, TaskUpdates)
    assert updates.ended_children == {
        good: EndedChild(RunStatus.SUCCEEDED, '{"x":2}', None),
        bad: EndedChild(RunStatus.FAILED, None, '"no"'),
    }


async def _waiting(store: SqlStore, kind: str) -> list:  # type: ignore[type-arg]
    return [task async for task in store.flows.tasks(TaskFilter(waits_for=kind), limit=9)]


@pytest.mark.proves("R5.11")
async def test_first_of_two_answers_to_one_question_is_final(store: SqlStore) -> None:
    await store.apply(a_start())
    claim = await claim_task(store)
    await store.apply(an_advance(claim, ParkTask("approval", None, Document("{}"))))
    yes = a_signal("ok", "true", asked_generation=1)
    assert isinstance(await store.apply(yes), Posted)
    assert await store.apply(yes) == AlreadyAnswered()
    await claim_task(store)
    assert await store.apply(yes) == AlreadyAnswered()


@pytest.mark.proves("I15")
async def test_two_signals_that_are_too_large_together_are_not_both_accepted(
    store: SqlStore,
) -> None:
    """Signals accepted after the read also count, consumed or not, even in the same batch."""
    await store.apply(a_start())
    claim = await claim_task(store)
    shared = await store.flows.shared_state(RUN)
    large = encode_document("x" * 600_000, field="value")
    observed = SharedStateUsage(600_000, shared.seq)
    first, two = a_signal("one", large, beside=observed), a_signal("two", large, beside=observed)
    accepted, refused = await asyncio.gather(store.apply(first), store.apply(two))
    assert isinstance(accepted, Posted)
    assert isinstance(refused, SharedStateFull)
    assert refused.byte_count > 1_200_000
    assert refused == await store.apply(two)
    takes, again = await asyncio.gather(
        store.apply(an_advance(claim, ContinueTask(), consumed_seqs=(accepted.seq,))),
        store.apply(two),
    )
    assert isinstance(takes, Advanced)
    assert refused == again == await store.apply(two)
    later = SharedStateUsage(600_000, (await store.flows.shared_state(RUN)).seq)
    assert isinstance(await store.apply(a_signal("two", large, beside=later)), Posted)


@pytest.mark.proves("R5.11")
@pytest.mark.parametrize("is_over", [True, False])
async def test_signal_for_an_ended_or_missing_task_is_refused(
    store: SqlStore, is_over: bool
) -> None:
    if is_over:
        await store.apply(a_start())
        assert await store.apply(RequestCancel(run_id=RUN)) is CancelResult.CANCELED
    else:
        await store.apply(Submit(run_id=RUN, key=Key("ann"), job="import"))
    assert await store.apply(a_signal("go", NULL)) == NotActive()


async def test_pruned_task_is_removed_with_all_its_rows(store: SqlStore, clock: FakeClock) -> None:
    await store.apply(a_start())
    claim = await claim_task(store)
    await store.apply(an_advance(claim, EndTask(None, NULL), node_run_rows=(a_row(1),)))
    clock.advance(1)
    assert await store.apply(PruneRuns((RUN,), clock())) == 1
    assert await store.flows.task(RUN) is None
    assert await store.flows.stored_task(RUN) is None
    assert [row async for row in store.flows.node_runs(RUN, limit=9)] == []
    assert [task async for task in store.flows.tasks(TaskFilter(), limit=9)] == []


@pytest.mark.proves("R5.6")
async def test_tasks_are_read_in_pages_and_the_last_changed_task_comes_first(
    store: SqlStore, clock: FakeClock
) -> None:
    for number in range(6):  # Two at each instant.
        run_id = RunId(f"task-{number}")
        await store.apply(a_start(run_id, key=run_id))
        clock.advance(number % 2)
    collected, after = [], None
    while page := [task async for task in store.flows.tasks(TaskFilter(), limit=2, after=after)]:
        collected += [task.record.run.id for task in page]
        after = page[-1].cursor
    assert collected == [f"task-{number}" for number in reversed(range(6))]


@pytest.mark.proves("I20")
async def test_tasks_are_read_in_chunks_in_the_order_of_the_first_read(
    store: SqlStore, clock: FakeClock
) -> None:
    """A task that changes during the read is returned once if it still matches the filter."""
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
    cursors = [task.cursor for task in (first[1], *rest)]
    assert cursors == sorted(cursors, reverse=True)


@pytest.mark.proves("I20")
async def test_page_of_tasks_is_full_even_if_a_task_stops_matching_the_filter(
    store: SqlStore, clock: FakeClock
) -> None:
    """A page that is read with one extra row always shows whether there are more (R5.6)."""
    ids = [RunId(f"task-{number}") for number in range(60)]
    for run_id in reversed(ids):
        await store.apply(a_start(run_id, key=run_id))
        clock.advance(1)
    active = store.flows.tasks(TaskFilter(statuses=[RunStatus.QUEUED]), limit=40)
    rows = [await anext(active)]
    for number in (20, 30, 39, 40):
        assert await store.apply(RequestCancel(run_id=ids[number])) is CancelResult.CANCELED
    rows += [task async for task in active]
    results = [task.flow_run.run_id for task in rows]
    assert results == [*ids[:20], *ids[21:30], *ids[31:39], *ids[41:44]]
    cursors = [task.cursor for task in rows]
    assert cursors == sorted(cursors, reverse=True)


@pytest.mark.proves("I20")
async def test_node_runs_are_read_in_chunks(store: SqlStore, clock: FakeClock) -> None:
    await store.apply(a_start())
    rows = tuple(a_row(seq) for seq in range(1, 101))
    await store.apply(an_advance(await claim_task(store), EndTask(None, NULL), node_run_rows=rows))
    for limit, after in ((100, 0), (99, 0), (32, 10), (5, 98), (1, 100)):
        seqs = [row.seq async for row in store.flows.node_runs(RUN, limit=limit, after_seq=after)]
        assert seqs == list(range(1, 101))[after : after + limit]
    reading = store.flows.node_runs(RUN, limit=100)
    await anext(reading)
    clock.advance(1)
    assert await store.apply(PruneRuns((RUN,), clock())) == 1
    assert (
        len([row async for row in reading]) < 50
    )  # The later rows were not in the chunk read before.
