"""The driver of a task awaits the only call of a node itself."""

import asyncio

import pytest

from headway import Headway, RunFailed
from tests.engine.flow.scenes import a_flow, local, summarize, wait_until

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("R5.11")
async def test_a_signal_during_a_call_is_visible_at_once_and_applied_after_it(
    url: str,
) -> None:
    hw = Headway(url, stop_wait_s=0)
    may_end = asyncio.Event()

    @hw.flows.function
    async def slow(value: object) -> object:
        await may_end.wait()
        return value

    @hw.flows.function
    async def after(value: object) -> object:
        return value

    flow = a_flow({"slow": local("slow", "go"), "after": local("after", "go")}, ("slow", "after"))
    async with hw:
        await hw.flows.publish("f", flow)
        task = await hw.flows.start("f")
        await hw.flows.signal(task.id, "go", 1)
        view = await wait_until(hw, task.id, lambda view: view.shared.get("go") == 1)
        assert view.run.is_active
        may_end.set()
        # The input of the node in flight does not change.
        assert await task.result() == {"go": 1, "slow": None, "after": 1}
        assert summarize(await hw.flows.node_runs(task.id)) == ["slow[0] ok", "after[0] ok"]


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("cause", "error"), [("cancelled", "CancelledError"), ("late", "TimeoutError")]
)
async def test_a_cancellation_that_a_function_causes_itself_fails_its_node(
    url: str, cause: str, error: str
) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def call(_: object) -> None:
        if cause == "cancelled":
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    async with hw:
        await hw.flows.publish("f", a_flow({"only": local("call", "$params.n")}))
        task = await hw.flows.start("f")
        with pytest.raises(RunFailed, match=error):
            await task.result()
        assert summarize(await hw.flows.node_runs(task.id)) == ["only[0] error"]


async def test_tasks_that_start_together_read_their_flow_once(url: str) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def double(value: int) -> int:
        return 2 * value

    async with hw:
        await hw.flows.publish("f", a_flow({"only": local("double", "$params.n")}))
        reader = hw.flows.services.flow_reader
        read_count = 0
        version = reader.version

        async def counted(flow: str, number: int) -> object:
            nonlocal read_count
            read_count += 1
            return await version(flow, number)

        reader.version = counted  # type: ignore[method-assign, assignment]
        starts = (hw.flows.start("f", version=1, params={"n": n}) for n in range(100))
        tasks = await asyncio.gather(*starts)
        assert [await task.result() for task in tasks[::50]] == [{"double": 0}, {"double": 100}]
        assert read_count == 1
