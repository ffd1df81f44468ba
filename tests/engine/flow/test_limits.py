"""Values too large for a task or its database fail that task with a clear error."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway, InvalidInput, RunFailed, RunNotActive, RunStatus
from headway.core.command.flow.advance import AdvanceFlow
from headway.core.command.run.report import AppendEvents
from headway.core.command.run.settle import Complete, Fail
from headway.core.document import BYTE_COUNT_MAX
from headway.core.errors import InvalidFlow, StoreFailed, TooLarge
from headway.services import refused_writes
from headway.services.engine import execute
from headway.services.flow import driver
from tests.engine.flow.scenes import a_flow, local, summarize, wait_until_parked

REFUSED = "the database refused the write (packet too large); nothing was saved"


@pytest.fixture(autouse=True)
def retry_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "RETRY_S", 0.001)
    monkeypatch.setattr(execute, "RETRY_S", 0.001)


@pytest.mark.proves("I15")
async def test_branch_results_that_are_too_large_in_total_fail_their_node_early(
    database_url: str,
) -> None:
    """The results count even if they are not stored. The node's error may select an edge."""
    hw, count = Headway(database_url, stop_wait_s=0), 0

    @hw.flows.function
    async def swell(_: object) -> str:
        nonlocal count
        count += 1
        return "é" * 100_000

    fan = {"kind": "foreach", "function": "swell", "prep": {"input_key": "$params.list"}}
    flow = a_flow({"fan": fan | {"on_error": {"too_large": "big"}}, "end": {"kind": "choice"}})
    flow["edges"] = [{"from": "fan", "action": "big", "to": "end"}]
    async with hw:
        await hw.flows.publish("swells", flow)
        run = await hw.flows.start("swells", params={"list": list(range(1_000))})
        assert await run.result(30) == {}
        assert count == 1 + BYTE_COUNT_MAX // 200_003
        rows = await hw.flows.node_runs(run.id)
        assert summarize(rows)[-2:] == ["fan error", "end ok"]
        assert (
            rows[-2].error == "too_large: the results of its branches are more than 1,048,576 bytes"
        )


@pytest.mark.backend("sqlite")
async def test_a_shared_state_that_fits_at_every_step_also_fits_at_the_end(url: str) -> None:
    """The limit counts bytes and includes names, so the final state is never refused."""
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def half(_: object) -> str:
        return "é" * 260_000

    nodes = {name: local("half") | {"post": {"output_key": name}} for name in ("a", "b", "c")}
    async with hw:
        flow = a_flow(nodes, ("a", "b"), ("b", "c"), ("c", "a"))
        await hw.flows.publish("halves", flow)
        run = await hw.flows.start("halves")
        with pytest.raises(RunFailed, match="too_large: shared state is more than"):
            await run.result(30)
        assert summarize(await hw.flows.node_runs(run.id)) == ["a[0] ok", "b[0] ok", "c error"]


@pytest.mark.backend("sqlite")
async def test_an_input_that_is_too_large_fails_its_task(url: str) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def large(_: object) -> str:
        return "x" * 600_000

    twice = {"kind": "choice", "prep": {"input_map": {"one": "large", "two": "large"}}}
    async with hw:
        await hw.flows.publish("twice", a_flow({"a": local("large"), "b": twice}, ("a", "b")))
        run = await hw.flows.start("twice")
        with pytest.raises(RunFailed, match="too_large: input of node 'b'"):
            await run.result(30)


def refuse(
    hw: Headway, monkeypatch: pytest.MonkeyPatch, is_refused: Callable[[Any], bool]
) -> Callable[[], int]:
    apply: Callable[[Any], Any] = hw.store.apply
    count = 0

    async def apply_or_refuse(command: Any) -> Any:
        nonlocal count
        if is_refused(command):
            count += 1
            raise StoreFailed(REFUSED)
        return await apply(command)

    monkeypatch.setattr(hw.store, "apply", apply_or_refuse)
    return lambda: count


def carries(command: Any, node: str) -> bool:
    is_step = isinstance(command, AdvanceFlow)
    return is_step and any(
        row.node_key == node and row.status == "ok" for row in command.node_run_rows
    )


@pytest.mark.proves("I15")
@pytest.mark.backend("sqlite")
@pytest.mark.parametrize("node", ["a", "b"])
async def test_a_step_that_the_database_refuses_repeatedly_fails_its_task(
    url: str, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    """In the middle and at the end of a flow: the task does not hold its slot forever."""
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def one(_: object) -> int:
        return 1

    async with hw:
        await hw.flows.publish("f", a_flow({"a": local("one"), "b": local("one")}, ("a", "b")))
        count = refuse(hw, monkeypatch, lambda command: carries(command, node))
        run = await hw.flows.start("f")
        with pytest.raises(RunFailed, match="packet too large"):
            await run.result(30)
        assert count() == refused_writes.REFUSAL_COUNT_MAX + 1


@pytest.mark.proves("I3")
@pytest.mark.backend("sqlite")
async def test_a_database_that_refuses_all_writes_for_a_while_fails_no_task(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, the disk is full, so the task is not the cause of the refusals."""
    hw = Headway(url, stop_wait_s=0)

    @hw.flows.function
    async def one(_: object) -> int:
        return 1

    @hw.job
    async def job(_: object) -> int:
        return 2

    refused_count = 0

    def is_refused(command: Any) -> bool:
        nonlocal refused_count
        is_step = isinstance(command, AdvanceFlow | AppendEvents | Complete | Fail)
        refused_count += is_step
        return is_step and refused_count < 4 * refused_writes.REFUSAL_COUNT_MAX

    async with hw:
        await hw.flows.publish("f", a_flow({"a": local("one"), "b": local("one")}, ("a", "b")))
        refuse(hw, monkeypatch, is_refused)
        task, run = await hw.flows.start("f"), await hw.start("job")
        assert await task.result(30) == {"one": 1}
        assert await run.result(30) == 2
        assert refused_count >= 4 * refused_writes.REFUSAL_COUNT_MAX
        assert (await run.wait_for_end()).run.status is RunStatus.SUCCEEDED


def flow_with_names(*, action: str, key: str) -> dict[str, Any]:
    """Build a flow that has to store these names."""
    case = {"action": action, "expr": {"exists": "$params.text"}}
    part = {"kind": "local", "function": "part", "post": {"output_map": {key: "part"}}}
    return a_flow(
        {
            "which": {"kind": "choice", "choice_cases": [case]},
            "part": part,
            "kept": local("part") | {"post": {"output_key": key[::-1]}},
            "wait": {"kind": "wait_event", "params": {"signal_key": "go"}},
        },
        ("which", action, "part"),
        ("part", "kept"),
        ("kept", "wait"),
    )


@pytest.mark.proves("I15")
@pytest.mark.parametrize("char", ["x", '"', "\x01", "\U0001f600"])
async def test_every_accepted_name_can_be_stored(database_url: str, char: str) -> None:
    """A name that is too long, as text or as JSON, is refused with its path (I24)."""
    hw = Headway(database_url, stop_wait_s=0)
    length = 85 if char == "\x01" else 254

    @hw.flows.function
    async def part(_: object) -> dict[str, int]:
        return {"part": 1}

    def key(end: str, extra: int = 0) -> str:
        return char * (length + extra) + end

    async with hw:
        await hw.flows.publish("long", flow_with_names(action="x" * 255, key=key("k")))
        run = await hw.flows.start("long", params={"text": "x"})
        await wait_until_parked(hw, run.id)
        await hw.flows.signal(run.id, key("s"), 1)
        with pytest.raises(InvalidInput, match=r"^key "):
            await hw.flows.signal(run.id, key("s", 2), 1)
        await hw.flows.signal(run.id, "go", 1)
        expected = {key("k"): 1, key("k")[::-1]: {"part": 1}, key("s"): 1, "go": 1}
        assert await run.result(30) == expected
        with pytest.raises(InvalidFlow) as refused:
            await hw.flows.publish("longer", flow_with_names(action="x" * 256, key=key("k", 2)))
        paths = [path.partition("[")[0] for path, _ in refused.value.errors]
        assert {"nodes.which.choice_cases", "nodes.kept.post.output_key"} <= set(paths)
        assert any(path.startswith("nodes.part.post.output_map") for path in paths)


@pytest.mark.proves("I15")
async def test_a_signal_that_is_too_large_for_the_task_is_refused_and_changes_nothing(
    database_url: str,
) -> None:
    """Pending and applied signals both count. A replacement of the same size fits."""
    large = "x" * 600_000
    async with Headway(database_url, stop_wait_s=0) as hw:
        ask = {"kind": "approval", "params": {"approval_key": "ok"}}
        await hw.flows.publish("asks", a_flow({"ask": ask}, ("ask", "approved", "")))
        run = await hw.flows.start("asks")
        await wait_until_parked(hw, run.id)
        await hw.lanes.set("flow", max_concurrent=0)
        await hw.flows.signal(run.id, "one", large)
        with pytest.raises(TooLarge, match=r"^value does not fit: .* 1,200,0\d\d bytes"):
            await hw.flows.signal(run.id, "two", large)
        await hw.lanes.set("flow", max_concurrent=1)
        await wait_until_parked(hw, run.id)
        with pytest.raises(TooLarge, match=r"^value does not fit"):
            await hw.flows.signal(run.id, "two", large)
        await hw.flows.signal(run.id, "one", large[::-1])
        view = await wait_until_parked(hw, run.id)
        assert (view.waits_for, set(view.shared)) == ("approval", {"one", "_rt"})
        room = BYTE_COUNT_MAX - len(f'{{"one":"{large}","ok":true,"two":""}}')
        with pytest.raises(TooLarge):
            await hw.flows.signal(run.id, "two", "x" * (room + len(',"ok":true') + 1))
        await hw.flows.signal(run.id, "two", "x" * room)
        await wait_until_parked(hw, run.id)
        await hw.flows.approve(run.id, True)
        assert set(await run.result(30)) == {"one", "two", "ok"}
        with pytest.raises(RunNotActive):
            await hw.flows.signal(run.id, "two", large)


@pytest.mark.proves("I15")
async def test_concurrent_signals_are_accepted_only_if_they_fit_together(
    database_url: str,
) -> None:
    """The task applies the accepted ones and continues."""
    async with Headway(database_url, stop_wait_s=0) as hw:
        ask = {"kind": "approval", "params": {"approval_key": "ok"}}
        await hw.flows.publish("asks", a_flow({"ask": ask}, ("ask", "approved", "")))
        run = await hw.flows.start("asks")
        await wait_until_parked(hw, run.id)
        sent = (hw.flows.signal(run.id, key, "x" * 400_000) for key in ("a", "b", "c", "d"))
        results = await asyncio.gather(*sent, return_exceptions=True)
        refused = [result for result in results if isinstance(result, TooLarge)]
        assert (len(refused), results.count(None)) == (2, 2)
        await hw.flows.approve(run.id, True)
        assert len(await run.result(30)) == 3
