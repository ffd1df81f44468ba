"""Functions: which program has them, and those that never return."""

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
from tests.engine.flow.scenes import a_flow, local, told, until

COUNT = 3


@pytest.mark.proves("R5.5")
async def test_a_task_waits_for_a_program_that_has_its_function(place: str) -> None:
    """I3: one that has not, such as the version before in a rolling deploy, destroys nothing."""
    fan = {"kind": "foreach", "function": "double", "prep": {"input_key": "$params.list"}}
    fan |= {"parallel_mode": "concurrent", "post": {"output_key": "each"}}
    flow = a_flow({"one": local("double", "$params.n"), "fan": fan}, ("one", "fan"))
    plain = Headway(place, stop_wait_s=0)
    able = Headway(place, stop_wait_s=0)

    @able.flows.function
    async def double(number: int) -> int:
        return 2 * number

    async with plain:
        await plain.flows.publish("doubles", flow)
        first = await plain.flows.start("doubles", params={"n": 1, "list": [1, 2]})
        view = await until(plain, first.id, lambda view: view.waits_for == "function")
        assert (view.node, view.run.is_parked or view.run.is_active) == ("one", True)
        explained = await plain.explain(first.id)
        while explained.gate is not Gate.NO_FUNCTION:
            await asyncio.sleep(0.05)
            explained = await plain.explain(first.id)
        assert explained.sentence.startswith("Its node 'one' needs the function 'double', which")
        assert "'double'" in explained.remedy
        async with able:
            tasks = [
                await plain.flows.start("doubles", params={"n": n, "list": [n, n]})
                for n in range(COUNT)
            ]
            expected = {"double": 2, "each": [2, 4]}
            assert await first.result(60) == expected
            for n, task in enumerate(tasks):
                assert await task.result(60) == {"double": 2 * n, "each": [2 * n, 2 * n]}
        rows = told(await plain.flows.node_runs(first.id))
        assert sorted(rows) == ["fan ok", "fan[0] ok", "fan[1] ok", "one[0] ok"]


@pytest.mark.proves("R5.10")
async def test_a_function_that_nobody_has_is_waited_for_as_long_as_its_node_may_take(
    place: str,
) -> None:
    """Its time runs on while the task is parked, and may end in a guard branch."""
    nodes = {
        "gone": local("nobody", timeout_ms=2_500, on_error={"timeout": "late"}),
        "choose": {"kind": "choice"},
    }
    async with Headway(place, stop_wait_s=0) as hw:
        await hw.flows.publish("gone", a_flow(nodes, ("gone", "late", "choose")))
        run = await hw.flows.start("gone")
        await until(hw, run.id, lambda view: view.run.is_parked)
        assert await run.result(30) == {}
        (gone, _) = await hw.flows.node_runs(run.id)
        assert (gone.error, gone.action) == ("timeout", "late")


@pytest.mark.proves("I15")
@pytest.mark.backend("sqlite")
async def test_functions_that_never_return_keep_no_others_from_their_threads(
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
    ("raised", "shown"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_function_that_raises_what_ends_programs_fails_its_node_alone(
    url: str, node: dict[str, Any], raised: BaseException, shown: str
) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def leaves(_: object) -> None:
        raise raised

    async with hw:
        failing = node | {"function": "leaves", "on_error": "next"}
        await hw.flows.publish(
            "f", a_flow({"a": failing, "then": {"kind": "choice"}}, ("a", "then"))
        )
        run = await hw.flows.start("f", params={"list": [1, 2]})
        await run.wait_for_end()
        errors = [row.error for row in await hw.flows.node_runs(run.id) if row.branch is not None]
        assert set(errors) == {shown}


@pytest.mark.proves("I15")
async def test_no_more_plain_functions_are_at_work_at_once_than_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(functions, "THREAD_COUNT_MAX", 2)
    known, may_end = Functions(), threading.Event()
    working: list[int] = []

    def work(number: int) -> int:
        working.append(number)
        may_end.wait()
        return number

    known.add(work)
    calls = [asyncio.create_task(known.call(a_call("work", n))) for n in range(3)]
    while len(working) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    assert len(working) == 2
    may_end.set()
    assert [one.result for one in await asyncio.gather(*calls)] == [0, 1, 2]  # type: ignore[union-attr]


@pytest.mark.proves("R5.3")
async def test_a_function_that_is_not_here_is_not_called_a_failure() -> None:
    outcome = await Functions().call(a_call("nobody", 1))
    assert outcome == CalleeUnavailable(
        "1", "no function: 'nobody' is not registered in this program"
    )


def a_call(name: str, given: int) -> CallFunction:
    return CallFunction(str(given), name, given, {}, 1, None)
