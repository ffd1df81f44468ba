"""`Headway` in each of its states: each member works, or its error names the missing step."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from headway import Headway, RunContext
from headway.core.errors import FlowNotFound, InvalidFlow, RunNotFound
from headway.ports.flow_reader import TaskFilter
from headway.services.flow.flows import Flows

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.proves("R9.2")]

CLOSED: Final = "use `async with` on Headway before you start runs"
ALWAYS: Final = {
    *(
        "flows",
        "ids",
        "job",
        "note_stop",
        "jobs",
        "hint_relay",
        "reload_on_hangup",
        "retention",
        "schedule",
    ),
    *("schedules", "schema", "timeouts", "urls", "without_engine"),
}
"""Members that work before Headway is open; `schedule` and `without_engine` only then."""


async def _explain(hw: Headway) -> Any:
    return await hw.explain((await hw.start("echo")).id)


CALLS: Final[dict[str, Callable[[Headway], Any]]] = {
    "active": lambda hw: hw.active.wait_for_end("unknown", 0.1),
    "continue_": lambda hw: hw.continue_("echo", key="ann"),
    "doctor": lambda hw: hw.doctor(),
    "explain": _explain,
    "flows": lambda hw: hw.flows.functions.names,
    "ids": lambda hw: hw.ids.run_id(),
    "job": lambda hw: hw.job(name=f"more-{hw.ids.run_id()}")(lambda ctx: None),  # noqa: ARG005
    "jobs": lambda hw: hw.jobs["echo"],
    "keys": lambda hw: hw.keys.list(),
    "lanes": lambda hw: hw.lanes.wait_for_active(1),
    "note_stop": lambda hw: hw.note_stop(),
    "hint_relay": lambda hw: hw.hint_relay,
    "reload": lambda hw: hw.reload(),
    "reload_on_hangup": lambda hw: hw.reload_on_hangup(),
    "retention": lambda hw: hw.retention,
    "run": lambda hw: hw.run("unknown").record(),
    "schedules": lambda hw: hw.schedules,
    "schema": lambda hw: hw.schema("echo"),
    "start": lambda hw: hw.start("echo"),
    "start_schedule": lambda hw: hw.start_schedule("echo"),
    "store": lambda hw: hw.store.runs.lanes(),
    "submit": lambda hw: hw.submit("echo"),
    "timeouts": lambda hw: hw.timeouts,
    "urls": lambda hw: hw.urls,
    "workers": lambda hw: hw.workers.list(),
}
FLOW: Final = {"kind": "local", "name": "double"}
DEFINITION: Final[dict[str, Any]] = {"start": "a", "nodes": {"a": FLOW}}


async def _collect(rows: AsyncIterator[Any]) -> list[Any]:
    return [row async for row in rows]


FLOW_CALLS: Final[dict[str, Callable[[Flows], Any]]] = {
    "approvals": lambda flows: flows.approvals(),
    "approve": lambda flows: flows.approve("unknown"),
    "create": lambda flows: flows.create("new"),
    "definition": lambda flows: flows.definition("unknown"),
    "function": lambda flows: flows.function(name=f"f{id(object())}")(lambda given: given),
    "functions": lambda flows: flows.functions.names,
    "get": lambda flows: flows.get("unknown"),
    "get_by_id": lambda flows: flows.get_by_id("flow-unknown"),
    "graph": lambda flows: flows.graph("unknown"),
    "iter_node_runs": lambda flows: _collect(flows.iter_node_runs("unknown", limit=1)),
    "iter_tasks": lambda flows: _collect(flows.iter_tasks(TaskFilter(), limit=1)),
    "list": lambda flows: flows.list(),
    "node_runs": lambda flows: flows.node_runs("unknown"),
    "publish": lambda flows: flows.publish("new", DEFINITION),
    "refine_explanation": lambda flows: flows.services,
    "rerun": lambda flows: flows.rerun("unknown", "a"),
    "resolve": lambda flows: flows.resolve("flow-unknown"),
    "schema": lambda flows: flows.schema(),
    "services": lambda flows: flows.services,
    "signal": lambda flows: flows.signal("unknown", "key", 1),
    "start": lambda flows: flows.start("unknown"),
    "task": lambda flows: flows.task("unknown"),
    "tasks": lambda flows: flows.tasks(),
    "validate": lambda flows: flows.validate(DEFINITION),
    "version": lambda flows: flows.version("unknown"),
    "versions": lambda flows: flows.versions("unknown"),
}
"""`refine_explanation` is called by `explain`, which CALLS contains."""
FLOWS_ALWAYS: Final = {"function", "functions", "schema"}
TESTED_SEPARATELY: Final = {"schedule", "wait_for_signal", "without_engine"}
"""Members with a separate test, here or in another module."""


@asynccontextmanager
async def _leave_closed(hw: Headway) -> AsyncIterator[Headway]:
    yield hw


@asynccontextmanager
async def _open_and_close(hw: Headway) -> AsyncIterator[Headway]:
    async with hw:
        pass
    yield hw


@asynccontextmanager
async def _without_engine_after_open(hw: Headway) -> AsyncIterator[Headway]:
    async with hw:
        pass
    async with hw.without_engine():
        yield hw


STATES: Final[dict[str, Callable[[Headway], Any]]] = {
    "not open": _leave_closed,
    "closed": _open_and_close,
    "without engine": lambda hw: hw.without_engine(),
    "without engine, after it was open": _without_engine_after_open,
    "open": lambda hw: hw,
}


def a_headway(url: str) -> Headway:
    hw = Headway(url)

    @hw.job
    async def echo(ctx: RunContext) -> str:
        return ctx.key

    hw.schedule("0 0 1 1 *", job=echo)
    return hw


async def call_outcome(call: Callable[[Any], Any], target: Headway | Flows) -> str:
    """Return "works", also if the call only misses what it was asked for, or the error."""
    try:
        result = call(target)
        if inspect.isawaitable(result):
            await result
    except (RunNotFound, FlowNotFound, InvalidFlow):
        return "works"
    except RuntimeError as error:
        return str(error)
    return "works"


def test_every_public_member_is_in_the_table() -> None:
    public = {name for name in vars(a_headway("sqlite:///x.db")) if not name.startswith("_")}
    public |= {name for name in dir(Headway) if not name.startswith("_")}
    assert public == {*CALLS, *TESTED_SEPARATELY}


@pytest.mark.parametrize("state", STATES)
async def test_each_method_works_or_raises_an_error_that_names_the_missing_step(
    url: str, state: str
) -> None:
    is_closed = state in ("not open", "closed")
    async with STATES[state](a_headway(url)) as hw:
        for name, call in CALLS.items():
            outcome = await call_outcome(call, hw)
            expected = CLOSED if is_closed and name not in ALWAYS else "works"
            assert outcome.startswith(expected), name


def test_every_public_member_of_flows_is_in_the_table() -> None:
    flows = a_headway("sqlite:///x.db").flows
    public = {name for name in (*vars(flows), *dir(Flows)) if not name.startswith("_")}
    assert public == {*FLOW_CALLS}


@pytest.mark.parametrize("state", STATES)
async def test_each_method_of_flows_works_or_raises_an_error_that_names_the_missing_step(
    url: str, state: str
) -> None:
    is_closed = state in ("not open", "closed")
    async with STATES[state](a_headway(url)) as hw:
        for name, call in FLOW_CALLS.items():
            outcome = await call_outcome(call, hw.flows)
            expected = CLOSED if is_closed and name not in FLOWS_ALWAYS else "works"
            assert outcome.startswith(expected), name


async def test_a_job_that_starts_with_the_engine_can_use_headway(url: str) -> None:
    hw = a_headway(url)

    @hw.job
    async def submit_another(ctx: RunContext) -> str:
        return (await hw.start("echo", key="ann")).id

    async with hw.without_engine():
        run_id = (await hw.start("submit_another")).id
    async with hw:
        assert await hw.run(await hw.run(run_id).result(10)).result(10) == "ann"


async def test_a_job_can_still_use_headway_while_the_with_block_exits(url: str) -> None:
    hw, has_started, results = Headway(url, stop_wait_s=0.0), asyncio.Event(), list[object]()

    @hw.job
    async def read_at_the_end(ctx: RunContext) -> None:
        try:
            has_started.set()
            await asyncio.Event().wait()
        finally:
            results.append(await hw.lanes.list())

    async with hw:
        await hw.start("read_at_the_end")
        await has_started.wait()
    assert len(results) == 1


async def test_a_headway_that_is_being_opened_cannot_be_opened_again(url: str) -> None:
    hw = a_headway(url)
    outcomes = await asyncio.gather(hw.__aenter__(), hw.__aenter__(), return_exceptions=True)
    await hw.__aexit__(None, None, None)
    assert outcomes[0] is hw
    assert "already open" in str(outcomes[1])


async def test_wait_for_active_returns_at_once_in_a_process_without_an_engine(url: str) -> None:
    hw = a_headway(url)
    async with hw.without_engine():
        await hw.start("echo")
        assert await hw.lanes.wait_for_active(1) is True


@pytest.mark.parametrize("state", ["open", "without engine"])
async def test_an_open_headway_cannot_be_opened_again(url: str, state: str) -> None:
    async with STATES[state](a_headway(url)) as hw:
        ways: list[Callable[[], Awaitable[Any]]] = [hw.__aenter__, hw.without_engine().__aenter__]
        for open_again in ways:
            with pytest.raises(RuntimeError, match="this Headway is already open"):
                await open_again()
        await hw.start("echo")
        with pytest.raises(RuntimeError, match="register schedules before `async with`"):
            hw.schedule("0 0 1 1 *", job="echo")


async def test_waiting_for_a_signal_requires_an_open_headway(url: str) -> None:
    with pytest.raises(RuntimeError, match=CLOSED):
        await a_headway(url).wait_for_signal()
