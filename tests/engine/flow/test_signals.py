"""An accepted signal counts, no matter when a driver applies it (I3, R5.11)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway, RunFailed
from headway.core.command.flow.advance import AdvanceFlow, EndTask
from headway.core.command.flow.shared_state import PostSignal, SharedStateUsage
from headway.core.document import encode_document
from headway.core.errors import ApprovalNotOpen, DatabaseUnavailable
from headway.core.ids import Instant, RunId
from headway.services.engine import execute
from headway.services.flow import driver
from tests.engine.flow.scenes import a_flow, local, summarize, wait_until_parked

TIMEOUT_MS = 3_000
ASKS = {"kind": "approval", "params": {"approval_key": "$shared.ok", "timeout_ms": TIMEOUT_MS}}
WAITS = {"kind": "wait_event", "params": {"signal_key": "go", "timeout_ms": TIMEOUT_MS}}
TIMER = {"kind": "timer", "params": {"delay_ms": TIMEOUT_MS}}
WHICH = {
    "kind": "choice",
    "choice_cases": [{"action": "flagged", "expr": {"exists": "$shared.flag"}}],
}


async def wait_for_deadline(hw: Headway, task_id: str) -> Instant:
    """Wait until the task is parked, and return its deadline."""
    wake_at = (await wait_until_parked(hw, task_id)).run.wake_at
    assert wake_at is not None
    return wake_at


async def wait_until_past(hw: Headway, task_id: str, deadline: Instant) -> None:
    while True:
        task = await hw.flows.services.flow_reader.stored_task((await hw.flows.task(task_id)).id)
        assert task is not None
        if task.now > deadline:
            return
        await asyncio.sleep(0.05)


async def actions_of(hw: Headway, task_id: str) -> list[tuple[str, str]]:
    return [(row.node_key, row.action) for row in await hw.flows.node_runs(task_id)]


@pytest.mark.proves("I3")
async def test_a_signal_accepted_in_time_counts_even_if_it_is_applied_late(
    database_url: str,
) -> None:
    """For example, the lane was full until after the deadline."""
    async with Headway(database_url, stop_wait_s=0) as hw:
        await hw.flows.publish("asks", a_flow({"ask": ASKS}, ("ask", "approved", "")))
        await hw.flows.publish("waits", a_flow({"wait": WAITS}))
        await hw.flows.publish("times", a_flow({"time": TIMER, "which": WHICH}, ("time", "which")))
        asks, waits, times = [await hw.flows.start(name) for name in ("asks", "waits", "times")]
        deadline = max([await wait_for_deadline(hw, run.id) for run in (asks, waits, times)])
        await hw.lanes.set("flow", max_concurrent=0)
        await hw.flows.approve(asks.id, True)
        await hw.flows.signal(waits.id, "other", 1)
        await hw.flows.signal(waits.id, "go", 2)
        await hw.flows.signal(times.id, "flag", 3)
        await wait_until_past(hw, asks.id, deadline)
        await hw.lanes.set("flow", max_concurrent=3)
        assert await asks.result(30) == {"ok": True}
        assert await actions_of(hw, asks.id) == [("ask", "approved")]
        assert await waits.result(30) == {"other": 1, "go": 2}
        assert await times.result(30) == {"flag": 3}
        assert await actions_of(hw, times.id) == [("time", "default"), ("which", "flagged")]


@pytest.mark.proves("I3")
async def test_an_approval_in_time_counts_even_if_no_engine_applies_it_in_time(
    database_url: str,
) -> None:
    async with Headway(database_url, stop_wait_s=0) as hw:
        await hw.flows.publish("asks", a_flow({"ask": ASKS}, ("ask", "approved", "")))
        run = await hw.flows.start("asks")
        deadline = await wait_for_deadline(hw, run.id)
    async with Headway(database_url).without_engine() as hw:
        await hw.flows.approve(run.id, True)
        await wait_until_past(hw, run.id, deadline)
    async with Headway(database_url, stop_wait_s=0) as hw:
        assert await hw.run(run.id).result(30) == {"ok": True}


def lose_steps(
    hw: Headway, monkeypatch: pytest.MonkeyPatch, *, count_max: int
) -> Callable[[], int]:
    """Make the connection break at the first `count_max` commits of steps."""
    apply: Callable[[Any], Any] = hw.store.apply
    count = 0

    async def apply_or_break(command: Any) -> Any:
        nonlocal count
        if isinstance(command, AdvanceFlow) and count < count_max:
            count += 1
            raise DatabaseUnavailable({"here": "the connection broke"})
        return await apply(command)

    monkeypatch.setattr(hw.store, "apply", apply_or_break)
    monkeypatch.setattr(driver, "RETRY_S", 0.001)
    monkeypatch.setattr(execute, "RETRY_S", 0.001)
    return lambda: count


@pytest.mark.proves("I3")
@pytest.mark.parametrize("is_crash", [False, True], ids=["broken", "crashed"])
async def test_a_signal_to_a_queued_task_survives_if_the_first_step_is_lost(
    database_url: str, monkeypatch: pytest.MonkeyPatch, is_crash: bool
) -> None:
    """The next program sees the signal even if the first one stored nothing."""
    flow = a_flow({"which": WHICH, "time": {"kind": "timer", "params": {"delay_ms": 1}}})
    flow["edges"] = [{"from": "which", "to": "time"}, {"from": "which", "action": "x", "to": ""}]
    async with Headway(database_url, stop_wait_s=0) as hw:
        await hw.lanes.set("flow", max_concurrent=0)
        await hw.flows.publish("early", flow)
        run = await hw.flows.start("early")
        await hw.flows.signal(run.id, "flag", 1)
        count = lose_steps(hw, monkeypatch, count_max=10**6 if is_crash else 1)
        await hw.lanes.set("flow", max_concurrent=1)
        while count() == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if not is_crash:
            await run.wait_for_end()
    async with Headway(database_url, stop_wait_s=0) as hw:
        assert await hw.run(run.id).result(30) == {"flag": 1}
        assert (await actions_of(hw, run.id))[0] == ("which", "flagged")


@pytest.mark.proves("R5.5")
async def test_a_first_node_that_is_executed_again_gets_the_same_input(database_url: str) -> None:
    """A signal sent during the node's first call applies only to later nodes."""
    inputs: list[Any] = []
    begun = asyncio.Event()

    def a_headway() -> Headway:
        hw = Headway(database_url, stop_wait_s=0)

        @hw.flows.function
        async def once(value: Any) -> None:
            inputs.append(value)
            if len(inputs) == 1:
                begun.set()
                await asyncio.Event().wait()

        return hw

    async with a_headway() as hw:
        await hw.flows.publish("calls", a_flow({"call": local("once", "$shared.flag")}))
        run = await hw.flows.start("calls")
        await begun.wait()
        await hw.flows.signal(run.id, "flag", 1)
    async with a_headway() as hw:
        assert await hw.run(run.id).result(30) == {"flag": 1, "once": None}
        assert inputs == [None, None]
        assert [row.input for row in await hw.flows.node_runs(run.id)] == [None]


def signal_at_the_end(
    hw: Headway, monkeypatch: pytest.MonkeyPatch, task_id: str, *values: Any
) -> None:
    """Signal `note` with each value in turn when the last step is about to be stored.

    The sender has checked earlier that the value fits.
    """
    apply: Callable[[Any], Any] = hw.store.apply
    remaining = list(values)
    usage = SharedStateUsage(0, 0)

    async def apply_late(command: Any) -> Any:
        is_end = isinstance(command, AdvanceFlow) and isinstance(command.next_action, EndTask)
        if is_end and command.claim.run_id == task_id and remaining:
            note = encode_document(remaining.pop(0), field="note")
            await apply(PostSignal(run_id=RunId(task_id), key="note", value=note, usage=usage))
        return await apply(command)

    monkeypatch.setattr(hw.store, "apply", apply_late)


@pytest.mark.proves("I3")
@pytest.mark.parametrize("kind", ["local", "approval"])
async def test_a_signal_accepted_before_the_end_is_in_the_result(
    database_url: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """No call is repeated to apply the signal."""
    hw, count = Headway(database_url, stop_wait_s=0), 0

    @hw.flows.function
    async def last(_: object) -> int:
        nonlocal count
        count += 1
        return count

    approval = {"kind": "approval", "params": {"approval_key": "$shared.go"}}
    nodes = {"ask": approval} | ({"last": local("last")} if kind == "local" else {})
    edges = [("ask", "approved", "last")] if kind == "local" else []
    async with hw:
        await hw.flows.publish("ends", a_flow(nodes, *edges))
        run = await hw.flows.start("ends")
        await wait_until_parked(hw, run.id)
        signal_at_the_end(hw, monkeypatch, run.id, "first", "second")
        await hw.flows.approve(run.id, True)
        last_result = {"last": 1} if kind == "local" else {}
        assert await run.result(30) == {"go": True, "note": "second", **last_result}
        view = await hw.flows.task(run.id)
        assert (view.shared, view.run.unread_count) == (await run.result(30), 0)
        assert len(await hw.flows.node_runs(run.id)) == len(nodes)


@pytest.mark.proves("I3")
@pytest.mark.backend("sqlite")
async def test_a_signal_that_makes_the_final_state_too_large_fails_the_task(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def large(_: object) -> str:
        return "x" * 600_000

    async with hw:
        nodes = {"ask": ASKS, "a": local("large")}
        await hw.flows.publish("ends", a_flow(nodes, ("ask", "approved", "a")))
        run = await hw.flows.start("ends")
        await wait_until_parked(hw, run.id)
        signal_at_the_end(hw, monkeypatch, run.id, "x" * 600_000)
        await hw.flows.approve(run.id, True)
        with pytest.raises(RunFailed, match="too_large: "):
            await run.result(30)
        assert summarize(await hw.flows.node_runs(run.id)) == ["ask ok", "a[0] ok", "a error"]


@pytest.mark.proves("I15")
@pytest.mark.backend("sqlite")
async def test_an_approval_never_overwrites_the_object_that_contains_its_key(url: str) -> None:
    """Only a signal with the whole object can replace the object (R5.11)."""
    ask = {"kind": "approval", "params": {"approval_key": "$shared.review.ok"}}
    async with Headway(url, stop_wait_s=0) as hw:
        published = await hw.flows.publish("asks", a_flow({"ask": ask}, ("ask", "approved", "")))
        (warning,) = published.warnings
        assert warning == (
            "nodes.ask.params.approval_key",
            (
                'is within "review", so `approve` cannot answer it;'
                ' send a signal that sets the whole of "review"'
            ),
        )
        run = await hw.flows.start("asks")
        await wait_until_parked(hw, run.id)
        await hw.flows.signal(run.id, "review", {"text": "long", "ok": None})
        assert (await wait_until_parked(hw, run.id)).awaited_key is None
        with pytest.raises(ApprovalNotOpen, match="only a signal can set"):
            await hw.flows.approve(run.id, True)
        assert (await hw.flows.task(run.id)).shared["review"] == {"text": "long", "ok": None}
        await hw.flows.signal(run.id, "review", {"text": "long", "ok": True})
        assert await run.result(30) == {"review": {"text": "long", "ok": True}}
