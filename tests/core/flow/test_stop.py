"""Aborting a run at any node, and running again from a node (R5.4, R5.10, I17)."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.errors import InvalidInput
from headway.core.flow.engine import step_context as walk
from headway.core.flow.engine.effects import CancelCall
from headway.core.flow.engine.inputs import Aborted, Answered, FlowInput, Signalled, Woken
from headway.core.flow.engine.state import NodeRunStatus
from headway.core.flow.engine.step import create_state, step
from headway.core.flow.parse import parse_flow
from headway.core.ids import add_seconds
from headway.core.run.status import RunStatus
from tests.core.flow import random_flows
from tests.core.flow.driver import START, Call, Crash, Driver, Reply
from tests.core.flow.scenes import a_driver, a_flow, executor, reply_in_order, summarize_rows


@pytest.fixture(autouse=True, scope="module")
def few_rows() -> Any:
    """Lower the limit of node runs, so that an endless loop ends soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "ROW_COUNT_MAX", 40)
        yield


@pytest.mark.proves("I17")
def test_run_aborted_before_its_start_has_a_failed_node_run_with_the_error() -> None:
    state = create_state(a_flow({"a": executor()}), {})
    commit = step(state, Aborted("too_large"), START)
    assert (state.status, state.error) == (RunStatus.FAILED, "too_large")
    assert summarize_rows(commit.rows) == [("a", 1, "error", "too_large", "")]
    assert commit.wake_at is None


@pytest.mark.proves("I17")
@pytest.mark.parametrize("crash", Crash)
def test_abort_cancels_every_child_and_no_later_input_changes_the_run(crash: Crash) -> None:
    fan = {
        "kind": "foreach",
        "flow": "child",
        "prep": {"input_key": "$params.items"},
        "parallel_mode": "concurrent",
    }
    inner = {"start": "f", "nodes": {"f": fan}}
    nodes = {"sf": {"kind": "subflow", "subflow": inner}}
    driver = a_driver(nodes, params={"items": [1, 2, 3]}, crash=crash).run()
    driver.apply(Answered("0.1.1.1", "done"))
    commit = driver.apply(Aborted("too_large"))
    assert commit.effects == [
        CancelCall("0.0.1.1", is_child=True),
        CancelCall("0.2.1.1", is_child=True),
    ]
    assert driver.rows[-1].path == ("sf", "f")
    assert driver.rows[-1].status is NodeRunStatus.ERROR
    for flow_input in (Answered("0.0.1.1", 1), Woken(), Signalled("a", 1), Aborted("x")):
        assert not driver.apply(flow_input).is_changed
    loaded = driver.store.load(driver.flow, driver.params)
    assert (loaded.status, loaded.error) == (RunStatus.FAILED, "too_large")
    assert not step(loaded, Woken(), START).is_changed


ALL = random_flows.Feature(
    call_timeouts=True, subflow_timeouts=True, concurrent_fail_fast=True, late_signals=True
)


@pytest.mark.proves("I17")
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(st.randoms(use_true_random=False), st.integers(0, 150), st.sampled_from(Crash))
def test_run_can_be_aborted_at_any_time(chance: Random, after_ms: int, crash: Crash) -> None:
    flow = parse_flow(random_flows.a_flow(chance, ALL)).flow
    callees = random_flows.make_callees(1)

    def answer(call: Call) -> Reply:
        return callees("service", "s", call.call_id, 1, 1)

    driver = Driver(flow, random_flows.PARAMS, answer, crash=crash).run(after_ms)
    was_failed = driver.state.status is RunStatus.FAILED
    row_count = len(driver.rows)
    commit = driver.apply(Aborted("too_large"))
    assert commit.is_changed != was_failed
    if not was_failed:
        assert driver.end == (RunStatus.FAILED, "too_large")
        assert [row.error for row in driver.rows[row_count:]] == ["too_large"]
        assert driver.in_flight == {}
        assert "_rt" not in driver.shared


@pytest.mark.proves("I17")
def test_aborted_run_fails_with_a_node_run() -> None:
    driver = a_driver({"a": executor()}).run()
    commit = driver.apply(Aborted("too_large"))
    assert commit.effects == [CancelCall("0.0.1.1")]
    assert driver.end == (RunStatus.FAILED, "too_large")
    assert summarize_rows(driver.rows) == [("a", 1, "error", "too_large", "")]


@pytest.mark.proves("R5.5")
def test_run_can_be_repeated_from_any_of_its_nodes() -> None:
    nodes = {"a": executor(post={"output_key": "x"}), "b": executor(prep={"input_key": "x"})}
    edges = {("a", "default"): "b"}
    failed = a_driver(nodes, edges, reply_in_order(Reply(1, 5), Reply(1, error="broken"))).run()
    again = a_driver(
        nodes, edges, reply_in_order(Reply(1, 6)), shared=failed.shared, node_key="b"
    ).run()
    assert again.end == (RunStatus.SUCCEEDED, "")
    assert [(row.node_key, row.input) for row in again.rows] == [("b", 5)]
    assert failed.shared == {"x": 5}
    with pytest.raises(InvalidInput, match="there is no node"):
        a_driver(nodes, edges, node_key="c")


@pytest.mark.proves("R5.5")
def test_answer_is_applied_even_if_it_arrives_before_the_wake_after_a_crash() -> None:
    """A child may end while its parent is down, before the parent calls it again."""
    nodes = {"a": {"kind": "flow_ref", "flow": "child", "post": {"output_key": "out"}}}
    driver = a_driver(nodes).run()
    loaded = driver.store.load(driver.flow, driver.params)
    commit = step(loaded, Answered("0.0.1.1", {"done": 1}), START)
    assert commit.effects == []
    assert loaded.status is RunStatus.SUCCEEDED
    assert loaded.shared == {"out": {"done": 1}}


@pytest.mark.proves("R5.10")
@pytest.mark.parametrize("flow_input", [Woken(), Aborted("too_large")])
def test_child_is_canceled_by_a_parent_that_was_restarted(flow_input: FlowInput) -> None:
    nodes = {"a": {"kind": "flow_ref", "flow": "child", "timeout_ms": 100}}
    driver = a_driver(nodes).run(0)
    loaded = driver.store.load(driver.flow, driver.params)
    commit = step(loaded, flow_input, add_seconds(START, seconds=1))
    assert commit.effects == [CancelCall("0.0.1.1", is_child=True)]
    assert loaded.status is RunStatus.FAILED


@pytest.mark.proves("I3")
@pytest.mark.parametrize("crash", Crash)
def test_signal_is_applied_after_a_success_that_is_not_stored_yet(crash: Crash) -> None:
    """A wake is ignored then (R5.11), and after a failure signals are ignored too."""
    approval = {"kind": "approval", "params": {"approval_key": "ok"}, "prep": {"input_key": "ok"}}
    driver = a_driver({"a": approval}, crash=crash)
    driver.signal_after(1, "ok", True)
    driver.run()
    driver.state = driver.store.load(driver.flow, driver.params)
    assert driver.apply(Signalled("ok", "again")).wake_at is None
    assert not driver.apply(Woken()).is_changed
    assert (driver.shared, driver.end) == ({"ok": "again"}, (RunStatus.SUCCEEDED, ""))
    assert summarize_rows(driver.rows) == [("a", 1, "ok", "", "approved")]
    assert driver.apply(Aborted("too_large")).is_changed
    assert driver.end == (RunStatus.FAILED, "too_large")
    assert not driver.apply(Signalled("ok", 1)).is_changed
