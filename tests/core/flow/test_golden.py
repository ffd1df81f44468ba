"""Flows of the first version give its client the same node runs, row by row (R5.6, R5.9)."""

from typing import Any

import pytest

from headway.core.run.status import RunStatus
from tests.core.flow.driver import Crash
from tests.core.flow.reference_values import Json
from tests.core.flow.scenes import a_driver, example_worker, executor, summarize_rows

END: Json = executor(
    service="transform",
    prep={"input_key": "$params.val"},
    params={"mul": 1.0},
    post={"action_static": ""},
)
TO_END = {("p", "next"): "end"}


def a_case(op: str) -> Json:
    return executor(
        service="transform",
        params={"op": op},
        prep={"input_key": "$params.text"},
        post={"output_key": "result", "action_static": "default"},
    )


BRANCH: dict[str, Json] = {
    "decide": executor(service="route", params={}, post={"action_key": "action"}),
    "B": a_case("upper"),
    "C": a_case("lower"),
}
BRANCH_EDGES = {
    ("decide", "goB"): "B",
    ("decide", "goC"): "C",
    ("B", "default"): "",
    ("C", "default"): "",
}


def a_parallel(services: list[str], **fields: Any) -> Json:
    return {
        "kind": "parallel",
        "parallel_services": services,
        "parallel_mode": "concurrent",
        "prep": {"input_key": "$params.val"},
        "post": {"output_key": "agg", "action_static": "next"},
        **fields,
    }


SUBFLOW: Json = {
    "start": "a",
    "nodes": {
        "a": executor(
            service="transform",
            prep={"input_key": "$params.val"},
            params={"mul": 5.0},
            post={"output_key": "m", "action_static": "go"},
        ),
        "b": executor(
            service="route",
            prep={"input_key": "m"},
            params={"action": "goC"},
            post={"action_static": "done"},
        ),
    },
    "edges": [{"from": "a", "action": "go", "to": "b"}],
}


@pytest.mark.proves("R5.9")
@pytest.mark.parametrize("crash", Crash)
@pytest.mark.parametrize(
    ("action", "result", "nodes"),
    [("goB", "HELLO HEADWAY", ["decide", "B"]), ("goC", "hello headway", ["decide", "C"])],
)
def test_branching_flow_runs_the_chosen_nodes(
    crash: Crash, action: str, result: str, nodes: list[str]
) -> None:
    params = {"text": "Hello headway", "action": action}
    driver = a_driver(BRANCH, BRANCH_EDGES, example_worker, params=params, crash=crash).run()
    assert driver.shared == {"result": result}
    assert [(row.node_key, row.status.value) for row in driver.rows] == [(n, "ok") for n in nodes]


@pytest.mark.proves("R5.6")
@pytest.mark.parametrize("crash", Crash)
def test_two_parallel_branches_and_their_combined_result_give_three_node_runs(crash: Crash) -> None:
    node = a_parallel(["transform", "route"], params={"mul": 3.0, "action": "goX"}, max_parallel=2)
    nodes = {"p": node, "end": END}
    driver = a_driver(nodes, TO_END, example_worker, params={"val": 2.0}, crash=crash).run()
    assert driver.shared == {"agg": [6, {"action": "goX"}]}
    assert [row.node_key for row in driver.rows] == ["p", "p", "p", "end"]
    assert [row.prep for row in driver.rows][:3] == [
        {"input_key": "$params.val", "branch": "transform"},
        {"input_key": "$params.val", "branch": "route"},
        {"input_key": "$params.val"},
    ]


@pytest.mark.proves("R5.6")
@pytest.mark.parametrize("crash", Crash)
def test_subflow_is_visible_in_the_node_runs_of_its_nodes(crash: Crash) -> None:
    post = {"output_key": "sub_out", "action_static": "next"}
    nodes = {"sf": {"kind": "subflow", "subflow": SUBFLOW, "post": post}, "end": END}
    edges = {("sf", "next"): "end"}
    driver = a_driver(nodes, edges, example_worker, params={"val": 2.0}, crash=crash).run()
    assert driver.shared == {"sub_out": {"m": 10}}
    assert [row.node_key for row in driver.rows] == ["sf", "sf", "end"]
    assert [row.prep.get("sub") for row in driver.rows] == ["a", "b", None]


@pytest.mark.proves("R5.6")
@pytest.mark.parametrize("crash", Crash)
def test_fail_fast_waits_for_branches_in_flight_and_continues(crash: Crash) -> None:
    node = a_parallel(["transform", "bad"], params={"mul": 2.0}, failure_strategy="fail_fast")
    nodes = {"p": node, "end": END}
    driver = a_driver(nodes, TO_END, example_worker, params={"val": 2.0}, crash=crash).run()
    assert driver.shared == {"agg": [4]}
    assert summarize_rows(driver.rows) == [
        ("p", 1, "error", "no worker", ""),
        ("p", 1, "ok", "", "next"),
        ("end", 1, "ok", "", "default"),
    ]
    assert driver.state.status is RunStatus.SUCCEEDED
