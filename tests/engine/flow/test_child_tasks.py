"""Parents and child tasks: the end of a child resumes its parent at once."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from headway import Headway, KeyBusy
from headway.core.command.flow.advance import AdvanceFlow, ContinueTask
from headway.core.command.flow.publish import StartFlow
from headway.core.errors import DatabaseUnavailable
from headway.services.flow import driver
from tests.engine.flow.scenes import a_flow, local, wait_until, wait_until_parked

RESTS = a_flow({"rest": {"kind": "timer", "params": {"delay_ms": 3_600_000}}})
WAITS = {"kind": "flow_ref", "flow": "rests", "on_error": "over", "post": {"error_key": "why"}}


@pytest.mark.proves("R5.5")
@pytest.mark.parametrize("state", ["parked", "queued"])
async def test_cancelling_a_child_resumes_its_parent(
    database_url: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent's own poll is too late to cause this."""
    monkeypatch.setattr(driver, "CHILD_POLL_US", 3_600_000_000)
    async with Headway(database_url, stop_wait_s=0) as hw:
        await hw.flows.publish("rests", RESTS)
        await hw.flows.publish("f", a_flow({"ref": WAITS, "end": {"kind": "choice"}}))
        run = await hw.flows.start("f")
        await wait_until(hw, run.id, lambda view: view.waits_for == "child")
        (child,) = await hw.flows.tasks(flow="rests")
        if state == "parked":
            await wait_until_parked(hw, child.id)
        await hw.run(child.id).cancel(reason="enough")
        async with asyncio.timeout(30):
            record = await run.wait_for_end()
        assert record.error is not None
        assert "child_canceled" in record.error


@pytest.mark.proves("R5.10")
@pytest.mark.backend("sqlite")
async def test_an_active_task_cannot_be_rerun(url: str) -> None:
    """Otherwise the rerun would copy a shared state that is about to change."""
    async with Headway(url, stop_wait_s=0) as hw:
        await hw.flows.publish("rests", RESTS)
        applied: list[Any] = []
        apply = hw.store.apply

        async def counted(command: Any) -> Any:
            applied.append(type(command))
            return await apply(command)

        runs = [await hw.flows.start("rests", key=key) for key in ("ann", None)]
        hw.store.apply = counted  # type: ignore[method-assign]
        for run in runs:
            with pytest.raises(KeyBusy):
                await hw.flows.rerun(run.id, "rest")
        assert StartFlow not in applied


@pytest.mark.proves("I1")
@pytest.mark.backend("sqlite")
async def test_a_call_that_ends_while_a_lost_commit_is_retried_is_not_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "RETRY_S", 0.05)
    hw = Headway(url, stop_wait_s=0)
    lost = asyncio.Event()
    calls: list[str] = []

    @hw.flows.function
    async def work(item: str) -> str:
        calls.append(item)
        if item == "slow":
            await lost.wait()
        return item

    fan = {"kind": "foreach", "function": "work", "prep": {"input_key": "$params.list"}}
    fan |= {"parallel_mode": "concurrent", "post": {"output_key": "each"}}
    async with hw:
        await hw.flows.publish("f", a_flow({"fan": fan}))
        lose_one_commit(hw, lost)
        run = await hw.flows.start("f", params={"list": ["quick", "slow"]})
        assert await run.result(30) == {"each": ["quick", "slow"]}
        assert lost.is_set()
        assert sorted(calls) == ["quick", "slow"]


def lose_one_commit(hw: Headway, lost: asyncio.Event) -> None:
    """Make the first commit of a step fail; the call in flight ends before the retry."""
    apply: Callable[[Any], Any] = hw.store.apply

    async def apply_or_not(command: Any) -> Any:
        is_step = isinstance(command, AdvanceFlow) and isinstance(command.next_action, ContinueTask)
        if is_step and command.node_run_rows and not lost.is_set():
            lost.set()
            raise DatabaseUnavailable({"here": "the connection broke before it"})
        return await apply(command)

    hw.store.apply = apply_or_not  # type: ignore[method-assign]


@pytest.mark.proves("S6")
@pytest.mark.backend("sqlite")
async def test_a_flow_of_two_thousand_nodes_runs_to_its_end(url: str) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def count(number: int | None) -> int:
        return (number or 0) + 1

    names = [f"n{number}" for number in range(2_000)]
    nodes = {name: local("count", "$shared.count") for name in names}
    async with hw:
        await hw.flows.publish("long", a_flow(nodes, *pairwise(names)))
        run = await hw.flows.start("long")
        assert await run.result(60) == {"count": 2_000}


@pytest.mark.proves("R5.10")
@pytest.mark.slow
@pytest.mark.backend("sqlite")
@pytest.mark.timeout(180)
async def test_results_of_two_thousand_children_are_collected(url: str) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def double(number: int) -> int:
        return 2 * number

    fan = {"kind": "foreach", "flow": "inner", "prep": {"input_key": "$params.list"}}
    fan |= {"parallel_mode": "concurrent", "post": {"output_key": "each"}}
    async with hw:
        await hw.flows.publish("inner", a_flow({"in": local("double", "$params.input")}))
        await hw.flows.publish("outer", a_flow({"fan": fan}))
        loaded_count = 0
        apply = hw.store.apply

        async def counted(command: Any) -> Any:
            nonlocal loaded_count
            answer = await apply(command)
            loaded_count += len(getattr(answer, "rows", ()))
            return answer

        hw.store.apply = counted  # type: ignore[method-assign]
        run = await hw.flows.start("outer", params={"list": list(range(2_000))})
        result = await run.result(150)
        assert result["each"] == [{"double": 2 * n} for n in range(2_000)]
        assert loaded_count < 200_000, loaded_count
