"""Functions of flows: missing ones, failing ones, and ones that never return."""

import asyncio
import threading
from typing import Any

import pytest

from headway import Headway
from headway.core.flow.engine.effects import CallFunction
from headway.core.flow.engine.inputs import CalleeUnavailable
from headway.core.run.explain import Gate
from headway.services.flow import functions
from headway.services.flow.functions import Functions
from tests.engine.flow.scenes import a_flow, local, summarize, wait_until

COUNT = 3


@pytest.mark.proves("R5.5")
async def test_a_task_waits_for_a_program_with_its_function(database_url: str) -> None:
    """An old program without the function loses nothing, as in a rolling deploy (I3)."""
    fan = {"kind": "foreach", "function": "double", "prep": {"input_key": "$params.list"}}
    fan |= {"parallel_mode": "concurrent", "post": {"output_key": "each"}}
    flow = a_flow({"one": local("double", "$params.n"), "fan": fan}, ("one", "fan"))
    plain = Headway(database_url, stop_wait_s=0)
    capable = Headway(database_url, stop_wait_s=0)

    @capable.flows.function
    async def double(number: int) -> int:
        return 2 * number

    async with plain:
        await plain.flows.publish("doubles", flow)
        first = await plain.flows.start("doubles", params={"n": 1, "list": [1, 2]})
        view = await wait_until(plain, first.id, lambda view: view.waits_for == "function")
        assert (view.node, view.run.is_parked or view.run.is_active) == ("one", True)
        explanation = await plain.explain(first.id)
        while explanation.gate is not Gate.NO_FUNCTION:
            await asyncio.sleep(0.05)
            explanation = await plain.explain(first.id)
        assert explanation.sentence.startswith("Its node 'one' needs the function 'double', which")
        assert "'double'" in explanation.remedy
        async with capable:
            tasks = [
                await plain.flows.start("doubles", params={"n": n, "list": [n, n]})
                for n in range(COUNT)
            ]
            expected = {"double": 2, "each": [2, 4]}
            assert await first.result(60) == expected
            for n, task in enumerate(tasks):
                assert await task.result(60) == {"double": 2 * n, "each": [2 * n, 2 * n]}
        rows = summarize(await plain.flows.node_runs(first.id))
        assert sorted(rows) == ["fan ok", "fan[0] ok", "fan[1] ok", "one[0] ok"]


@pytest.mark.proves("R5.10")
async def test_a_task_waits_for_a_missing_function_until_its_node_times_out(
    database_url: str,
) -> None:
    """The timeout continues while the task is parked, and may lead to an error branch."""
    nodes = {
        "gone": local("missing", timeout_ms=2_500, on_error={"timeout": "late"}),
        "choose": {"kind": "choice"},
    }
    async with Headway(database_url, stop_wait_s=0) as hw:
        await hw.flows.publish("gone", a_flow(nodes, ("gone", "late", "choose")))
        run = await hw.flows.start("gone")
        await wait_until(hw, run.id, lambda view: view.run.is_parked)
        assert await run.result(30) == {}
        (gone, _) = await hw.flows.node_runs(run.id)
        assert (gone.error, gone.action) == ("timeout", "late")


@pytest.mark.proves("I15")
@pytest.mark.backend("sqlite")
async def test_functions_that_never_return_do_not_block_other_threads(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw = Headway(url, stop_wait_s=0)
    may_end = threading.Event()

    @hw.flows.function
    def stuck(_: object) -> None:
        may_end.wait()

    @hw.flows.function
    def quick(number: int) -> int:
        return number + 1

    fan: dict[str, Any] = {
        "kind": "foreach",
        "function": "stuck",
        "prep": {"input_key": "$params.list"},
    }
    fan |= {"parallel_mode": "concurrent", "timeout_ms": 50, "failure_strategy": "ignore_errors"}
    flow = a_flow({"fan": fan, "then": local("quick", "$params.n")}, ("fan", "then"))
    async with hw:
        await hw.flows.publish("f", flow)
        run = await hw.flows.start("f", params={"n": 1, "list": list(range(40))})
        assert await run.result(30) == {"quick": 2}
        may_end.set()


@pytest.mark.proves("I15")
@pytest.mark.backend("sqlite")
@pytest.mark.parametrize(
    "node",
    [
        {"kind": "local", "timeout_ms": 60_000},
        {
            "kind": "foreach",
            "parallel_mode": "concurrent",
            "failure_strategy": "ignore_errors",
            "prep": {"input_key": "$params.list"},
        },
    ],
    ids=lambda node: node["kind"],
)
@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_function_that_raises_an_exit_exception_fails_only_its_node(
    url: str, node: dict[str, Any], raised: BaseException, error: str
) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def exits(_: object) -> None:
        raise raised

    async with hw:
        failing = node | {"function": "exits", "on_error": "next"}
        await hw.flows.publish(
            "f", a_flow({"a": failing, "then": {"kind": "choice"}}, ("a", "then"))
        )
        run = await hw.flows.start("f", params={"list": [1, 2]})
        await run.wait_for_end()
        errors = [row.error for row in await hw.flows.node_runs(run.id) if row.branch is not None]
        assert set(errors) == {error}


@pytest.mark.proves("I15")
async def test_the_number_of_concurrent_plain_functions_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(functions, "THREAD_COUNT_MAX", 2)
    registry, may_end = Functions(), threading.Event()
    working: list[int] = []

    def work(number: int) -> int:
        working.append(number)
        may_end.wait()
        return number

    registry.add(work)
    calls = [asyncio.create_task(registry.call(a_call("work", n))) for n in range(3)]
    while len(working) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    assert len(working) == 2
    may_end.set()
    assert [outcome.result for outcome in await asyncio.gather(*calls)] == [0, 1, 2]  # type: ignore[union-attr]


@pytest.mark.proves("R5.3")
async def test_a_missing_function_is_reported_as_unavailable() -> None:
    outcome = await Functions().call(a_call("missing", 1))
    assert outcome == CalleeUnavailable(
        "1", "no function: 'missing' is not registered in this process"
    )


def a_call(name: str, value: int) -> CallFunction:
    return CallFunction(str(value), name, value, {}, 1, None)
