"""Flow tasks advance step by step on every backend."""

import asyncio

import pytest

from headway import Headway, InvalidInput, KeyBusy, RunFailed, RunNotActive, RunNotFound, RunStatus
from headway.core.command.run.cancel import CancelResult
from headway.core.errors import ApprovalNotOpen, FlowNotFound, InvalidFlow, RevisionConflict
from headway.core.run.explain import Gate
from tests.engine.flow.scenes import a_flow, local, summarize, wait_until, wait_until_parked

INNER = a_flow({"in": local("double", "$params.input")})
OUTER = a_flow(
    {
        "first": local("double", "$params.n"),
        "which": {
            "kind": "choice",
            "choice_cases": [{"action": "big", "expr": {"gt": ["$shared.double", 5]}}],
        },
        "more": local("add", "double", params={"by": 1}),
        "sub": {
            "kind": "subflow",
            "subflow": a_flow({"deep": local("double", "$params.n")}),
            "post": {"output_key": "sub"},
        },
        "ref": {
            "kind": "flow_ref",
            "flow": "inner",
            "prep": {"input_key": "add"},
            "post": {"output_key": "ref"},
        },
        "each": {
            "kind": "foreach",
            "flow": "inner",
            "prep": {"input_key": "$params.list"},
            "post": {"output_key": "each"},
            "parallel_mode": "concurrent",
        },
    },
    ("first", "which"),
    ("which", "big", "more"),
    ("more", "sub"),
    ("sub", "ref"),
    ("ref", "each"),
)


def a_headway(url: str) -> Headway:
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def double(number: int) -> int:
        return 2 * number

    @hw.flows.function
    def add(number: int, params: dict[str, int]) -> int:
        return number + params["by"]

    @hw.flows.function
    async def fail(_: object) -> None:
        raise ValueError("not today")

    return hw


@pytest.mark.proves("R5.4")
async def test_a_task_runs_its_flow_and_records_each_node(database_url: str) -> None:
    """The flow has local, choice, subflow, foreach and flow_ref nodes (R5.3)."""
    hw = a_headway(database_url)
    async with hw:
        await hw.flows.publish("inner", INNER)
        published = await hw.flows.publish("outer", OUTER)
        assert published.warnings == ()
        run = await hw.flows.start("outer", params={"n": 3, "list": [1, 2, 3]})
        expected = {
            "double": 6,
            "add": 7,
            "sub": {"double": 6},
            "ref": {"double": 14},
            "each": [{"double": 2}, {"double": 4}, {"double": 6}],
        }
        assert await run.result(30) == expected
        rows = await hw.flows.node_runs(run.id)
        assert sorted(summarize(rows)[:5]) == sorted(
            ["first[0] ok", "which ok", "more[0] ok", "sub/deep[0] ok", "ref[0] ok"]
        )
        assert sorted(summarize(rows)[5:8]) == ["each[0] ok", "each[1] ok", "each[2] ok"]
        assert summarize(rows)[8:] == ["each ok"]
        assert [row.seq for row in rows] == list(range(1, 10))
        view = await hw.flows.task(run.id)
        assert (view.status, view.step_count, view.shared) == (RunStatus.SUCCEEDED, 9, expected)
        children = [task for task in await hw.flows.tasks(flow="inner") if task.run.parent_id]
        assert {child.run.parent_id for child in children} == {run.id}
        assert len(children) == 4


@pytest.mark.proves("R5.11")
async def test_a_parked_task_holds_nothing_and_a_signal_wakes_it(database_url: str) -> None:
    """The task holds no slot, claim or asyncio task (I5). Its version is pinned (R5.1)."""
    hw = a_headway(database_url)
    waits = {
        "wait": {"kind": "wait_event", "params": {"signal_key": "$shared.go"}},
        "then": local("double", "go"),
    }
    async with hw:
        await hw.flows.publish("waits", a_flow(waits, ("wait", "then")))
        run = await hw.flows.start("waits", key="ann")
        view = await wait_until_parked(hw, run.id)
        assert (view.waits_for, view.awaited_key, view.node) == ("event", "go", "wait")
        assert (view.run.slot, view.run.instance_id, view.run.token) == (None, None, "")
        assert set(view.shared["_rt"]) == {"we:wait"}
        assert len(asyncio.all_tasks()) < 20
        with pytest.raises(KeyBusy):
            await hw.flows.start("waits", key="ann")
        await hw.flows.publish("waits", a_flow({"other": local("add", "go")}))
        await hw.flows.signal(run.id, "other", 1)
        assert (await wait_until_parked(hw, run.id)).shared["other"] == 1
        await hw.flows.signal(run.id, "go", 21)
        assert (await run.result(30))["double"] == 42
        with pytest.raises(RunNotActive):
            await hw.flows.signal(run.id, "go", 1)
        with pytest.raises(RunNotFound):
            await hw.flows.signal("unknown", "go", 1)


@pytest.mark.proves("R5.11")
async def test_an_early_signal_is_stored_until_its_node_is_reached(database_url: str) -> None:
    hw = a_headway(database_url)
    waits = {
        "first": local("double", "$params.n"),
        "wait": {"kind": "wait_event", "params": {"signal_key": "go"}, "post": {"output_key": "x"}},
    }
    async with hw:
        await hw.lanes.set("flow", max_concurrent=0)
        await hw.flows.publish("waits", a_flow(waits, ("first", "wait")))
        run = await hw.flows.start("waits", params={"n": 1})
        await hw.flows.signal(run.id, "go", "early")
        view = await hw.flows.task(run.id)
        assert (view.status, view.shared) == (RunStatus.QUEUED, {"go": "early"})
        await hw.lanes.set("flow", max_concurrent=1)
        assert await run.result(30) == {"go": "early", "double": 2, "x": "early"}


@pytest.mark.proves("R5.11")
async def test_signals_to_a_queued_task_are_applied_before_its_first_node(
    database_url: str,
) -> None:
    hw = a_headway(database_url)
    both = {"and": [{"exists": "$shared.one"}, {"exists": "$shared.two"}]}
    flow = {"which": {"kind": "choice", "choice_cases": [{"action": "both", "expr": both}]}}
    flow |= {"yes": local("double", "$shared.two"), "no": local("double", "$params.n")}
    edges = (("which", "both", "yes"), ("which", "no"))
    async with hw:
        await hw.lanes.set("flow", max_concurrent=0)
        await hw.flows.publish("early", a_flow(flow, *edges))
        run = await hw.flows.start("early", params={"n": 1})
        await hw.flows.signal(run.id, "one", 10)
        await hw.flows.signal(run.id, "two", 20)
        await hw.lanes.set("flow", max_concurrent=1)
        assert await run.result(30) == {"one": 10, "two": 20, "double": 40}


@pytest.mark.proves("R5.3")
async def test_a_task_can_be_approved_only_once(database_url: str) -> None:
    hw = a_headway(database_url)
    asks = {
        "ask": {"kind": "approval", "params": {"approval_key": "$shared.ok"}},
        "yes": local("double", "$params.n"),
    }
    async with hw:
        await hw.flows.publish("asks", a_flow(asks, ("ask", "approved", "yes")))
        run = await hw.flows.start("asks", params={"n": 2})
        await wait_until_parked(hw, run.id)
        assert [task.id for task in await hw.flows.approvals()] == [run.id]
        await hw.lanes.set("flow", max_concurrent=0)  # So that the first answer is not applied yet.
        await hw.flows.approve(run.id, True, by="ann")
        with pytest.raises(ApprovalNotOpen, match="it was already answered"):
            await hw.flows.approve(run.id, False, by="bob")
        await hw.lanes.set("flow", max_concurrent=1)
        assert await run.result(30) == {"ok": True, "double": 4}
        assert await hw.flows.approvals() == []
        with pytest.raises(RunNotActive):
            await hw.flows.approve(run.id, True)
        with pytest.raises(InvalidInput, match="must be true, false, or the name of an action"):
            await hw.flows.approve(run.id, 1)  # type: ignore[arg-type]


@pytest.mark.proves("R5.10")
async def test_errors_retries_and_timeouts_follow_the_edges_of_the_flow(database_url: str) -> None:
    hw = a_headway(database_url)

    @hw.flows.function
    async def hang(_: object) -> None:
        await asyncio.Event().wait()

    flow = a_flow(
        {
            "late": local("hang", timeout_ms=30, on_error={"timeout": "next"}),
            "bad": local("fail", max_retries=1, wait_ms=5),
            "end": local("double", "$params.n"),
        },
        ("late", "next", "bad"),
        ("bad", "error", "end"),
    )
    async with hw:
        await hw.flows.publish("guards", flow)
        run = await hw.flows.start("guards", params={"n": 1})
        assert await run.result(30) == {"double": 2}
        rows = await hw.flows.node_runs(run.id)
        assert summarize(rows) == ["late[0] error", "bad[0] error", "bad[0] error", "end[0] ok"]
        assert [row.error for row in rows[:2]] == ["timeout", "ValueError: not today"]
        await hw.flows.publish("fails", a_flow({"bad": local("fail"), "gone": local("missing")}))
        failed = await hw.flows.start("fails")
        with pytest.raises(RunFailed, match="not today"):
            await failed.result(30)


@pytest.mark.proves("I11")
async def test_a_cancel_reaches_a_task_in_every_state(database_url: str) -> None:
    """The cancel adds a canceled node run (R5.4). An ended task does not change."""
    hw, begun = a_headway(database_url), asyncio.Event()
    stopped: list[str] = []

    @hw.flows.function
    async def hang(_: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("hang")

    timer = {"kind": "timer", "params": {"delay_ms": 3_600_000}}
    async with hw:
        await hw.flows.publish("hangs", a_flow({"a": local("hang")}))
        await hw.flows.publish("rests", a_flow({"a": timer}))
        each = {"kind": "foreach", "flow": "rests", "prep": {"input_key": "$params.list"}}
        await hw.flows.publish("fans", a_flow({"a": each | {"parallel_mode": "concurrent"}}))
        hangs, rests = await hw.flows.start("hangs"), await hw.flows.start("rests")
        fans = await hw.flows.start("fans", params={"list": [1, 2]})
        await begun.wait()
        await wait_until_parked(hw, rests.id)
        while len(await hw.flows.tasks(flow="rests")) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await rests.cancel(reason="enough") is CancelResult.CANCELED
        await hangs.cancel()
        await fans.cancel()
        for run in (hangs, rests, fans):
            assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
            rows = await hw.flows.node_runs(run.id)
            assert summarize(rows)[-1:] == ["a canceled"]
        assert (await hw.flows.node_runs(rests.id))[-1].error == "enough"
        assert stopped == ["hang"]
        for child in await hw.flows.tasks(flow="rests"):
            assert (await hw.run(child.id).wait_for_end()).run.status is RunStatus.CANCELED
        assert await rests.cancel() is CancelResult.TOO_LATE
        await hw.lanes.set("flow", max_concurrent=0)
        queued = await hw.flows.start("hangs")
        await queued.cancel()
        assert summarize(await hw.flows.node_runs(queued.id)) == ["a canceled"]


@pytest.mark.proves("R5.3")
async def test_a_timer_parks_its_task_and_wakes_it_when_due(database_url: str) -> None:
    hw = a_headway(database_url)
    flow = a_flow(
        {"t": {"kind": "timer", "params": {"delay_ms": 1_200}}, "n": local("double", "$params.n")},
        ("t", "n"),
    )
    async with hw:
        await hw.flows.publish("times", flow)
        run = await hw.flows.start("times", params={"n": 4})
        view = await wait_until_parked(hw, run.id)
        assert view.waits_for == "timer"
        assert view.run.wake_at is not None
        explanation = await hw.explain(run.id)
        assert explanation.gate is Gate.NOT_DUE
        assert await run.result(30) == {"double": 8}
        (timer, _) = await hw.flows.node_runs(run.id)
        assert timer.finished_at >= timer.started_at + 1_200_000


@pytest.mark.proves("R5.10")
async def test_a_task_can_be_rerun_from_a_node(database_url: str) -> None:
    hw = a_headway(database_url)
    flow = a_flow(
        {"a": local("double", "$params.n"), "b": local("add", "double", params={"by": 1})},
        ("a", "b"),
    )
    async with hw:
        await hw.flows.publish("two", flow)
        run = await hw.flows.start("two", params={"n": 4}, key="ann")
        assert await run.result(30) == {"double": 8, "add": 9}
        again = await hw.flows.rerun(run.id, "b")
        assert await again.result(30) == {"double": 8, "add": 9}
        assert summarize(await hw.flows.node_runs(again.id)) == ["b[0] ok"]
        view = await hw.flows.task(again.id)
        assert (view.rerun_of, view.run.key, view.version) == (run.id, "ann", 1)
        with pytest.raises(InvalidInput, match='there is no node "z"'):
            await hw.flows.rerun(run.id, "z")


@pytest.mark.proves("I15")
async def test_an_invalid_flow_is_refused_with_all_its_errors(database_url: str) -> None:
    hw = a_headway(database_url)
    async with hw:
        bad = a_flow({"a": {"kind": "magic"}, "b": local("double", "$nowhere")}, ("a", "z"))
        with pytest.raises(InvalidFlow) as refused:
            await hw.flows.publish("bad", bad)
        assert {path for path, _ in refused.value.errors} >= {
            "nodes.a.kind",
            "nodes.b.prep.input_key",
            "edges[0].to",
        }
        with pytest.raises(FlowNotFound):
            await hw.flows.start("bad")
        good = a_flow({"a": local("double"), "b": local("missing")})
        (lonely, unknown) = await hw.flows.validate(good)
        assert (lonely.path, unknown.path) == ("nodes.b", "nodes.b")
        first = await hw.flows.publish("good", good, expected_revision=0)
        with pytest.raises(RevisionConflict):
            await hw.flows.publish("good", a_flow({"a": local("add")}), expected_revision=0)
        assert (await hw.flows.publish("good", good)).is_new is False
        assert "double" in await hw.flows.graph("good")
        assert (await hw.flows.version("good")).digest == first.digest


async def test_a_state_that_grows_too_large_fails_only_its_task(database_url: str) -> None:
    hw = a_headway(database_url)

    @hw.flows.function
    async def swell(_: object) -> str:
        return "x" * 700_000

    nodes = {name: local("swell") | {"post": {"output_key": name}} for name in ("a", "b", "c")}
    async with hw:
        await hw.flows.publish("swells", a_flow(nodes, ("a", "b"), ("b", "c")))
        run = await hw.flows.start("swells")
        with pytest.raises(RunFailed, match="too_large"):
            await run.result(30)
        assert summarize(await hw.flows.node_runs(run.id)) == ["a[0] ok", "b error"]


@pytest.mark.proves("R5.1")
async def test_the_job_name_of_flows_is_reserved(database_url: str) -> None:
    hw = Headway(database_url)
    with pytest.raises(InvalidInput, match=r"^job 'headway.flow': names that begin with"):
        hw.job(name="headway.flow")(local)
    async with hw:
        await hw.flows.publish("f", a_flow({"a": local("none")}))
        with pytest.raises(
            InvalidInput, match=r"'headway\.flow' is internal to headway; start a task"
        ):
            await hw.start("headway.flow")
        with pytest.raises(InvalidInput, match=r"registered jobs: none$"):
            await hw.start("other")
        assert dict(hw.jobs) == {}


@pytest.mark.proves("R5.2")
@pytest.mark.backend("sqlite")
async def test_a_parameter_may_have_any_name(url: str) -> None:
    """Child tasks inherit the parameters of their parent."""
    hw = a_headway(url)
    params = {"context": 1, "self": 2, "_params": 3, "n": 4}
    ref = {"kind": "flow_ref", "flow": "one", "post": {"output_key": "ref"}}
    async with hw:
        await hw.flows.publish("one", a_flow({"a": local("double", "$params.context")}))
        one = await hw.flows.start("one", params=params)
        assert await one.result(30) == {"double": 2}
        nodes = {"b": local("double", "$params.self"), "c": ref}
        await hw.flows.publish("two", a_flow(nodes, ("b", "c")))
        two = await hw.flows.start("two", params=params)
        assert await two.result(30) == {"double": 4, "ref": {"double": 2}}


@pytest.mark.proves("R5.5")
async def test_a_new_program_resumes_the_tasks_in_the_database(database_url: str) -> None:
    hw = a_headway(database_url)
    waits = {"wait": {"kind": "wait_event", "params": {"signal_key": "go"}}}
    async with hw:
        await hw.flows.publish("waits", a_flow(waits))
        run = await hw.flows.start("waits")
        await wait_until_parked(hw, run.id)
    another = Headway(database_url)
    async with another:
        await another.flows.signal(run.id, "go", 1)
        assert await another.run(run.id).result(30) == {"go": 1}
        view = await wait_until(another, run.id, lambda task: not task.run.is_active)
        assert view.last_action == "default"
