"""Parents and their child tasks: whoever ends a child, its parent goes on at once."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from headway import Headway, KeyBusy
from headway.core.command.flow.advance import AdvanceFlow, ContinueTask
from headway.core.command.flow.publish import StartFlow
from headway.core.errors import DatabaseUnavailable
from headway.services.flow import driver as drive
from tests.engine.flow.scenes import a_flow, local, parked, until

RESTS = a_flow({"rest": {"kind": "timer", "params": {"delay_ms": 3_600_000}}})
WAITS = {"kind": "flow_ref", "flow": "rests", "on_error": "over", "post": {"error_key": "why"}}


@pytest.mark.proves("R5.5")
@pytest.mark.parametrize("way", ["parked", "queued"])
async def test_the_end_of_a_child_that_somebody_cancels_is_told_to_its_parent(
    place: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S11: without the parent's own look, which is made to come much later."""
    monkeypatch.setattr(drive, "CHILD_POLL_US", 3_600_000_000)
    async with Headway(place, stop_wait_s=0) as hw:
        await hw.flows.publish("rests", RESTS)
        await hw.flows.publish("f", a_flow({"ref": WAITS, "end": {"kind": "choice"}}))
        run = await hw.flows.start("f")
        await until(hw, run.id, lambda view: view.waits_for == "child")
        (child,) = await hw.flows.tasks(flow="rests")
        if way == "parked":
            await parked(hw, child.id)
        await hw.run(child.id).cancel(reason="enough")
        async with asyncio.timeout(30):
            record = await run.wait_for_end()
        assert record.error is not None
        assert "child_canceled" in record.error


@pytest.mark.proves("R5.10")
@pytest.mark.backend("sqlite")
async def test_a_task_that_is_active_is_not_run_again_with_or_without_a_key(url: str) -> None:
    """Else it would take along a shared state that is about to change."""
    async with Headway(url, stop_wait_s=0) as hw:
        await hw.flows.publish("rests", RESTS)
        started: list[Any] = []
        apply = hw.store.apply

        async def counted(command: Any) -> Any:
            started.append(type(command))
            return await apply(command)

        runs = [await hw.flows.start("rests", key=key) for key in ("ann", None)]
        hw.store.apply = counted  # type: ignore[method-assign]
        for run in runs:
            with pytest.raises(KeyBusy):
                await hw.flows.rerun(run.id, "rest")
        assert StartFlow not in started


@pytest.mark.proves("I1")
@pytest.mark.backend("sqlite")
async def test_a_call_that_ends_while_a_lost_commit_is_awaited_is_not_made_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "AGAIN_S", 0.05)
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
        lose_one(hw, lost)
        run = await hw.flows.start("f", params={"list": ["quick", "slow"]})
        assert await run.result(30) == {"each": ["quick", "slow"]}
        assert lost.is_set()
        assert sorted(calls) == ["quick", "slow"]


def lose_one(hw: Headway, lost: asyncio.Event) -> None:
    """The first commit of a step does not land, and what is under way ends before the next try."""
    apply: Callable[[Any], Any] = hw.store.apply

    async def apply_or_not(command: Any) -> Any:
        is_step = isinstance(command, AdvanceFlow) and isinstance(command.next_action, ContinueTask)
        if is_step and command.rows and not lost.is_set():
            lost.set()
            raise DatabaseUnavailable({"here": "the connection broke before it"})
        return await apply(command)

    hw.store.apply = apply_or_not  # type: ignore[method-assign]


@pytest.mark.proves("S18")
@pytest.mark.backend("sqlite")
async def test_a_flow_of_two_thousand_nodes_is_walked_to_its_end(url: str) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def count(number: int | None) -> int:
        return (number or 0) + 1

    names = [f"n{at}" for at in range(2_000)]
    nodes = {name: local("count", "$shared.count") for name in names}
    async with hw:
        await hw.flows.publish("long", a_flow(nodes, *pairwise(names)))
        run = await hw.flows.start("long")
        assert await run.result(60) == {"count": 2_000}


@pytest.mark.proves("R5.10")
@pytest.mark.slow
@pytest.mark.backend("sqlite")
@pytest.mark.timeout(180)
async def test_two_thousand_children_are_gathered(url: str) -> None:
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
        load = hw.store.apply

        async def counted(command: Any) -> Any:
            nonlocal loaded_count
            answer = await load(command)
            loaded_count += len(getattr(answer, "rows", ()))
            return answer

        hw.store.apply = counted  # type: ignore[method-assign]
        run = await hw.flows.start("outer", params={"list": list(range(2_000))})
        result = await run.result(150)
        assert result["each"] == [{"double": 2 * n} for n in range(2_000)]
        assert loaded_count < 200_000, loaded_count
