"""Choice and subflow nodes, and long chains of nodes that make no calls (R5.3, R5.12)."""

from itertools import pairwise
from typing import Any

import pytest

from headway.core.flow.engine import step_context as walk
from headway.core.flow.engine.effects import CancelCall
from headway.core.flow.engine.inputs import Woken
from headway.core.flow.engine.run_state import retry_state, visible_shared
from headway.core.flow.engine.step import ENTERED_COUNT_MAX
from headway.core.run.status import RunStatus
from tests.core.flow.driver import MS, START, Crash, Reply
from tests.core.flow.reference_values import Json
from tests.core.flow.scenes import a_definition, a_driver, executor, reply_in_order, summarize_rows


def a_choice(*cases: tuple[str, Json], **fields: Any) -> Json:
    listed = [{"action": action, "expr": expr} for action, expr in cases]
    return {"kind": "choice", "choice_cases": listed, **fields}


def a_subflow(nodes: dict[str, Json], edges: Any = None, **fields: Any) -> Json:
    return {"kind": "subflow", "subflow": a_definition(nodes, edges), **fields}


IS_BIG = {"gt": ["$input", 10]}
IS_ODD = {"in": ["$input", [1, 3, 5]]}


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize(
    ("value", "post", "action"),
    [
        (11, {}, "big"),
        (3, {"action_static": "s"}, "odd"),
        (4, {"action_static": "s", "action_key": "k"}, "s"),
        (4, {"action_key": "k"}, "in shared"),
        (4, {}, "fallback"),
    ],
)
def test_first_case_that_is_true_overrides_every_other_action(
    value: int, post: Json, action: str
) -> None:
    node = a_choice(
        ("big", IS_BIG),
        ("odd", IS_ODD),
        prep={"input_key": "$params.n"},
        post={"output_key": "out", **post},
        default_action="fallback",
    )
    driver = a_driver({"a": node}, params={"n": value}, shared={"k": "in shared"}).run()
    assert summarize_rows(driver.rows) == [("a", 1, "ok", "", action)]
    assert driver.shared["out"] == value


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("crash", Crash)
def test_long_chain_of_choices_is_executed_in_steps_of_limited_size(crash: Crash) -> None:
    keys = [f"c{at}" for at in range(3 * ENTERED_COUNT_MAX)]
    edges = {(key, "default"): after for key, after in pairwise(keys)}
    driver = a_driver({key: a_choice() for key in keys}, edges, crash=crash)
    commit = driver.apply(Woken())
    assert len(commit.rows) == ENTERED_COUNT_MAX
    assert commit.wake_at == 0
    assert [row.path[0] for row in driver.run().rows] == keys


@pytest.mark.proves("R5.4")
def test_endless_loop_fails_when_there_are_too_many_node_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walk, "ROW_COUNT_MAX", 1_000)
    driver = a_driver({"a": a_choice()}, {("a", "default"): "a"}).run()
    assert driver.end == (RunStatus.FAILED, "too_many_steps")
    assert len(driver.rows) == 1_000


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize("crash", Crash)
def test_subflow_has_its_own_shared_state_and_its_parent_selects_the_action(
    crash: Crash,
) -> None:
    inner = {
        "a": executor(
            prep={"input_key": "$input"}, post={"output_key": "x", "action_static": "never"}
        ),
        "b": executor(prep={"input_map": {"own": "x", "outer": "kept"}}, post={"output_key": "y"}),
    }
    node = a_subflow(
        inner,
        {("a", "never"): "b"},
        prep={"input_key": "kept"},
        post={"output_key": "out", "action_key": "x"},
        params={"p": 1},
    )
    answer = reply_in_order(*[Reply(1, "go"), Reply(1, 2)] if crash is Crash.NEVER else [])
    if crash is not Crash.NEVER:
        answer = lambda call: Reply(1, "go" if call.call_id == "0.0.1.1" else 2)  # noqa: E731
    driver = a_driver({"sf": node}, {}, answer, shared={"kept": "outer"}, crash=crash).run()
    assert driver.shared == {"kept": "outer", "out": {"x": "go", "y": 2}}
    assert driver.state.last_action == "go"
    assert [row.input for row in driver.rows] == ["outer", {"own": "go", "outer": None}]
    assert [row.path for row in driver.rows] == [("sf", "a"), ("sf", "b")]


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("crash", Crash)
def test_failed_subflow_is_tried_again_from_its_start(crash: Crash) -> None:
    node = a_subflow({"a": executor(post={"output_key": "x"}), "b": executor()},
                     {("a", "default"): "b"}, max_retries=1, wait_ms=10)  # fmt: skip

    def answer(call: Any) -> Reply:
        return Reply(1, error="broken") if call.call_id in ("1.0.1.1", "4.0.1.1") else Reply(1, 1)

    driver = a_driver({"sf": node}, {}, answer, crash=crash).run()
    assert driver.end == (RunStatus.FAILED, "broken")
    assert summarize_rows(driver.rows) == [
        ("a", 1, "ok", "", "default"),
        ("b", 1, "error", "broken", "error"),
        ("sf", 1, "error", "broken", ""),
        ("a", 1, "ok", "", "default"),
        ("b", 1, "error", "broken", "error"),
        ("sf", 2, "error", "broken", "error"),
    ]
    assert driver.shared == {}


@pytest.mark.proves("R5.10")
@pytest.mark.parametrize("crash", Crash)
def test_timeout_of_a_subflow_cancels_its_nodes(crash: Crash) -> None:
    inner = a_subflow({"a": executor()})
    node = a_subflow({"in": inner}, timeout_ms=50, on_error={"timeout": "late"})
    nodes = {"sf": node, "z": {"kind": "timer", "params": {"delay_ms": 10**6}}}
    driver = a_driver(nodes, {("sf", "late"): "z"}, crash=crash).run(100)
    assert summarize_rows(driver.rows) == [("sf", 1, "error", "timeout", "late")]
    assert (driver.rows[0].finished_at - START) // MS == 50
    assert CancelCall("0.0.1.1") in driver.commands
    assert driver.in_flight == {}
    assert driver.store.inner_shared == "[]"


@pytest.mark.proves("R5.10")
@pytest.mark.parametrize("crash", Crash)
def test_outer_timeout_wins_over_an_inner_timeout_at_the_same_instant(crash: Crash) -> None:
    timer = {"kind": "timer", "params": {"delay_ms": 50}}
    node = a_subflow({"in": a_subflow({"t": timer}, timeout_ms=50)}, timeout_ms=50)
    driver = a_driver({"sf": node}, crash=crash).run()
    assert summarize_rows(driver.rows) == [("sf", 1, "error", "timeout", "error")]


@pytest.mark.proves("R5.12")
def test_run_state_shows_a_subflow_and_its_nodes() -> None:
    fan = {
        "kind": "foreach",
        "service": "s",
        "prep": {"input_key": "$params.items"},
        "parallel_mode": "concurrent",
        "max_parallel": 2,
        "max_attempts": 1,
        "failure_strategy": "ignore_errors",
    }
    node = a_subflow({"a": executor(post={"output_key": "x", "action_static": "go"}), "f": fan},
                     {("a", "go"): "f"})  # fmt: skip
    answer = reply_in_order(Reply(1, 1), Reply(5, "first"), Reply(6, error="second"))
    driver = a_driver({"sf": node}, {}, answer, params={"items": [1, 2, 3, 4]}).run()
    run_state = {
        "done": {"0": "first"},
        "errs": {"1": "second"},
        "mode": "concurrent",
        "max": 2,
        "strategy": "ignore_errors",
        "idx": 4,
    }
    within = {"curr": "f", "last": "go", "shared": {"x": 1, "_rt": {"fe:f": run_state}}}
    assert visible_shared(driver.state) == {"_rt": {"sf:sf": within}}
    loaded = driver.store.load(driver.flow, driver.params)
    assert visible_shared(loaded) == visible_shared(driver.state)


@pytest.mark.proves("R5.12")
def test_run_state_of_a_parallel_node_lists_results_by_service() -> None:
    node = {"kind": "parallel", "parallel_services": ["s", "t", "s"], "parallel_mode": "concurrent"}
    driver = a_driver({"p": node}, {}, reply_in_order(Reply(1, "one"), Reply(2, "two"))).run()
    run_state = {"done": {"s": "one", "t": "two"}, "errs": {}, "mode": "concurrent", "max": 0}
    assert visible_shared(driver.state) == {"_rt": {"pl:p": run_state | {"strategy": "fail_fast"}}}


@pytest.mark.proves("R5.1")
def test_retry_state_shows_the_current_try() -> None:
    driver = a_driver(
        {"a": executor(max_retries=1, wait_ms=50)}, {}, reply_in_order(Reply(1, error="x"))
    )
    driver.run(20)
    at = START + 51 * MS
    again = {"0": {"try": 2, "attempt": 1, "at": at}}
    assert retry_state(driver.state) == {"node": "a", "try": 1, "branches": again}
