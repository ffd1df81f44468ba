"""Parallel and foreach nodes: their modes, limits and strategies (R5.3, R5.10, R5.12)."""

from typing import Any

import pytest

from headway.core.flow.engine.effects import CallFlow, CallService
from headway.core.flow.engine.inputs import Answered
from headway.core.run.status import RunStatus
from tests.core.flow.driver import MS, START, Crash, Driver, Reply
from tests.core.flow.reference_values import Json
from tests.core.flow.scenes import a_driver, executor, summarize_rows

NEXT = {("p", "next"): "z"}


def a_foreach(**fields: Any) -> Json:
    """Return a node of which each branch calls one worker, unless `fields` change it."""
    return {
        "kind": "foreach",
        "service": "s",
        "max_attempts": 1,
        "prep": {"input_key": "$params.items"},
        "post": {"output_key": "out", "action_static": "next"},
        **fields,
    }


def reply_by_item(table: dict[Any, Reply]) -> Any:
    return lambda call: table.get(call.input, Reply(5, call.input))


def run_over(items: list[Any], node: Json, table: dict[Any, Reply] | None = None,
         **more: Any) -> Driver:  # fmt: skip
    nodes = {"p": node, "z": {"kind": "timer", "params": {"delay_ms": 10**6}}}
    answer = more.pop("answer", reply_by_item(table or {}))
    driver = a_driver(nodes, NEXT, answer, params={"items": items}, **more)
    return driver.run(10_000)


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize("crash", Crash)
def test_results_are_in_branch_order_and_not_in_the_order_of_completion(crash: Crash) -> None:
    node = a_foreach(parallel_mode="concurrent", max_parallel=3)
    slow = {item: Reply(60 - 10 * item, item * item) for item in range(6)}
    driver = run_over(list(range(6)), node, slow, crash=crash)
    assert driver.shared["out"] == [0, 1, 4, 9, 16, 25]
    branches = [row.branch for row in driver.rows if row.branch is not None]
    assert sorted(branches) == list(range(6)) != branches
    assert driver.rows[-1].output == driver.shared["out"]


@pytest.mark.proves("R5.12")
def test_sequential_is_the_default_with_one_branch_at_a_time() -> None:
    driver = run_over([1, 2, 3], a_foreach(), {})
    assert [row.started_at - START for row in driver.rows] == [0, 5 * MS, 10 * MS, 0]


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize(("limit", "most"), [(0, 100), (1, 1), (7, 7), (1_000, 300)])
def test_max_parallel_limits_the_branches_in_flight(limit: int, most: int) -> None:
    node = a_foreach(parallel_mode="concurrent", max_parallel=limit)
    driver = run_over(list(range(300)), node, answer=lambda _: None)
    assert len(driver.in_flight) == most
    driver.apply(Answered(driver.calls()[0].call_id, "done"))
    assert len(driver.in_flight) == min(most, 299)


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize("crash", Crash)
def test_fail_fast_starts_no_more_branches_and_continues_with_the_successes(crash: Crash) -> None:
    table = {2: Reply(5, error="broken")}
    driver = run_over([1, 2, 3], a_foreach(), table, crash=crash)
    assert driver.shared["out"] == [1]
    assert summarize_rows(driver.rows) == [
        ("p", 1, "ok", "", ""),
        ("p", 1, "error", "broken", "next"),
    ]
    assert driver.state.frames[0].node.key == "z"


@pytest.mark.proves("R5.12")
def test_after_a_failure_no_branch_is_tried_again() -> None:
    table = {1: Reply(5, error="weak"), 2: Reply(6, error="final", is_final=True)}
    table |= {3: Reply(30, error="slow")}
    node = a_foreach(parallel_mode="concurrent", max_retries=3, wait_ms=100)
    driver = run_over([1, 2, 3, 4], node, table)
    assert [(row.branch, row.attempt, row.status.value, row.error) for row in driver.rows] == [
        (0, 1, "error", "weak"),
        (3, 1, "ok", ""),
        (1, 1, "error", "final"),
        (0, 2, "canceled", "another branch failed"),
        (2, 1, "error", "slow"),
    ]
    assert driver.shared["out"] == [4]


@pytest.mark.proves("R5.12")
def test_after_a_failure_no_other_worker_is_called() -> None:
    table = {1: Reply(5, error="final", is_final=True), 2: Reply(10, error="weak")}
    driver = run_over([1, 2], a_foreach(parallel_mode="concurrent", max_attempts=3), table)
    assert [(row.branch, row.error) for row in driver.rows] == [(0, "final"), (1, "weak")]
    assert len(driver.calls()) == 2


@pytest.mark.proves("R5.4")
def test_fail_fast_without_an_edge_fails_the_run() -> None:
    nodes = {"p": a_foreach()}
    answer = reply_by_item({1: Reply(5, error="broken")})
    driver = a_driver(nodes, {}, answer, params={"items": [1]}).run()
    assert driver.end == (RunStatus.FAILED, "broken")


@pytest.mark.proves("R5.10")
def test_fail_fast_with_on_error_takes_the_mapped_action() -> None:
    nodes = {"p": a_foreach(on_error="guard", post={"error_key": "why"}), "g": executor()}
    answer = reply_by_item({1: Reply(5, error="broken")})
    driver = a_driver(nodes, {("p", "guard"): "g"}, answer, params={"items": [1]}).run(5)
    assert driver.state.frames[0].node.key == "g"
    assert driver.shared == {"why": "broken"}


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize("crash", Crash)
def test_collect_errors_keeps_every_result_at_its_index_and_lists_the_errors(crash: Crash) -> None:
    node = a_foreach(failure_strategy="collect_errors", parallel_mode="concurrent")
    table = {2: Reply(5, error="broken")}
    driver = run_over([1, 2, 3], node, table, crash=crash)
    assert driver.shared["out"] == {"results": [1, None, 3], "errors": {"1": "broken"}}
    assert driver.rows[-1].status == "ok"


@pytest.mark.proves("R5.5")
@pytest.mark.parametrize("crash", Crash)
def test_final_failure_of_a_branch_is_not_tried_again_after_a_crash(crash: Crash) -> None:
    node = a_foreach(failure_strategy="collect_errors", max_retries=3)
    table = {2: Reply(5, error="final", is_final=True)}
    driver = run_over([1, 2, 3], node, table, crash=crash)
    assert [(row.branch, row.attempt) for row in driver.rows] == [(0, 1), (1, 1), (2, 1), (None, 1)]
    assert driver.shared["out"] == {"results": [1, None, 3], "errors": {"1": "final"}}


@pytest.mark.proves("R5.12")
def test_ignore_errors_keeps_the_successes() -> None:
    driver = run_over(
        [1, 2, 3], a_foreach(failure_strategy="ignore_errors"), {2: Reply(5, error="x")}
    )
    assert driver.shared["out"] == [1, 3]
    assert summarize_rows(driver.rows)[-1] == ("p", 1, "ok", "", "next")


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("crash", Crash)
def test_each_branch_has_its_own_tries(crash: Crash) -> None:
    def answer(call: CallService) -> Reply:
        is_weak = call.input == 2 and call.try_no == 1
        return Reply(5, error="weak") if is_weak else Reply(5, call.input)

    node = a_foreach(parallel_mode="concurrent", max_retries=1, wait_ms=30)
    driver = run_over([1, 2, 3], node, answer=answer, crash=crash)
    assert driver.shared["out"] == [1, 2, 3]
    tried = sorted((row.branch, row.attempt) for row in driver.rows if row.branch is not None)
    assert tried == [(0, 1), (1, 1), (1, 2), (2, 1)]


@pytest.mark.proves("R5.12")
def test_foreach_over_an_empty_list_succeeds_with_an_empty_list() -> None:
    driver = run_over([], a_foreach())
    assert driver.shared["out"] == []
    assert summarize_rows(driver.rows) == [("p", 1, "ok", "", "next")]


@pytest.mark.proves("R5.12")
def test_node_after_a_foreach_over_an_empty_list_has_its_own_input() -> None:
    nodes = {"p": a_foreach(), "z": executor(prep={"input_key": "$params.word"})}
    params = {"items": [], "word": "hello"}
    driver = a_driver(nodes, NEXT, lambda _: Reply(1, 1), params=params).run()
    assert [(row.node_key, row.input, row.prep) for row in driver.rows] == [
        ("p", [], {"input_key": "$params.items"}),
        ("z", "hello", {"input_key": "$params.word"}),
    ]


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize("items", [None, 3, "text", {"a": 1}])
def test_input_that_is_not_a_list_is_an_error_of_the_node(items: Any) -> None:
    nodes = {"p": a_foreach(max_retries=3)}
    driver = a_driver(nodes, params={"items": items}).run()
    assert driver.end == (RunStatus.FAILED, "bad input: a foreach node needs a list")
    assert len(driver.rows) == 1


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize("where", ["node", "run"])
def test_services_of_a_parallel_node_may_be_given_as_a_parameter(where: str) -> None:
    services = {"services": ["a", "b"]}
    node: Json = {"kind": "parallel", "post": {"output_key": "out"}}
    node |= {"params": services} if where == "node" else {}
    driver = a_driver(
        {"p": node}, {}, lambda call: Reply(1, call.service),  # type: ignore[union-attr]
        params=services if where == "run" else {},
    ).run()  # fmt: skip
    assert driver.shared == {"out": ["a", "b"]}


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize("services", [None, [], "s", [1], [""], [None]])
def test_parallel_node_without_services_fails(services: Any) -> None:
    driver = a_driver({"p": {"kind": "parallel"}}, params={"services": services}).run()
    assert driver.state.status is RunStatus.FAILED
    assert "services" in driver.state.error


@pytest.mark.proves("R5.12")
def test_service_that_is_listed_twice_has_two_results() -> None:
    node = {
        "kind": "parallel",
        "parallel_services": ["s", "t", "s"],
        "post": {"output_key": "out"},
        "failure_strategy": "collect_errors",
    }
    driver = a_driver(
        {"p": node}, {}, lambda call: Reply(1, error="no" if call.call_id.startswith("0.2") else "",
                                            result=call.call_id)
    ).run()  # fmt: skip
    assert driver.shared["out"] == {
        "results": ["0.0.1.1", "0.1.1.1", None],
        "errors": {"s#2": "no"},
    }


@pytest.mark.proves("R5.10")
@pytest.mark.parametrize("crash", [Crash.NEVER, Crash.RELOAD])
def test_foreach_starts_a_child_run_per_item_and_gathers_the_results(crash: Crash) -> None:
    node = a_foreach(flow="resize", parallel_mode="concurrent", max_parallel=4, params={"size": 9})
    del node["service"]

    def answer(call: CallFlow) -> Reply:
        return Reply(10 + call.params["input"] % 7, {"out": call.params["input"]})

    driver = run_over(list(range(50)), node, answer=answer, crash=crash)
    assert driver.shared["out"] == [{"out": item} for item in range(50)]
    started = {call.call_id: call for call in driver.commands if isinstance(call, CallFlow)}
    assert len(started) == 50
    assert all(call.flow == "resize" and call.params["size"] == 9 for call in started.values())


@pytest.mark.proves("R5.5")
def test_data_written_per_branch_does_not_grow_with_the_number_of_branches() -> None:
    """Each end writes its own node run and a small cursor, never the earlier results."""

    def chars_per_branch(count: int) -> float:
        driver = run_over([7] * count, a_foreach(parallel_mode="concurrent", max_parallel=50))
        gathered = 3 * len(str(driver.shared["out"]))
        return (driver.store.written_count - gathered) / count

    assert chars_per_branch(2_000) < 1.1 * chars_per_branch(200)


@pytest.mark.proves("R5.10")
def test_thousands_of_child_runs_are_gathered() -> None:
    node = a_foreach(flow="child", parallel_mode="concurrent", max_parallel=1_000)
    del node["service"]
    answer = lambda call: Reply(5, call.params["input"])  # noqa: E731
    driver = run_over(list(range(5_000)), node, answer=answer)
    assert driver.shared["out"] == list(range(5_000))
