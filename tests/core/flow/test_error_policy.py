"""The policy after a failed node, and the wait for a missing worker (R5.14)."""

from typing import Any

import pytest

from headway.core.errors import InvalidFlow
from headway.core.flow.canonical import canonical_json
from headway.core.flow.definition.definition import ErrorPolicy
from headway.core.flow.engine.inputs import (
    Answered,
    CalleeUnavailable,
    Failed,
    ServiceOffered,
    Woken,
    WorkerRef,
)
from headway.core.flow.engine.stored_state import awaited_services, to_cursor
from headway.core.flow.parse import parse_flow
from headway.core.ids import SECOND_US, Instant
from headway.core.run.status import RunStatus
from headway.services.flow.waiting_nodes import awaited_worker
from tests.core.flow.driver import MS, START, Crash, Driver, Reply
from tests.core.flow.reference_values import Json
from tests.core.flow.scenes import (
    a_definition,
    a_driver,
    a_flow,
    executor,
    reply_in_order,
    summarize_rows,
)

FAIL = {"error_policy": "fail"}
NOT_WAITING = FAIL | {"worker_wait_ms": 0}
NO_WORKER = Reply(5, error="no worker", worker_id=None)
BROKEN = Reply(5, error="broken")
DONE = {"kind": "choice"}
EVENT = {"kind": "wait_event", "params": {"signal_key": "go", "timeout_ms": 20}}
INNER = {"kind": "subflow", "subflow": a_definition({"a": executor()})}
ONE_WORKER = {"max_attempts": 1}
FAN = {
    "kind": "parallel",
    "parallel_services": ["s", "t"],
    "post": {"output_key": "out"},
    **ONE_WORKER,
}
EACH = {"kind": "foreach", "service": "s", "prep": {"input_key": "$params.list"}, **ONE_WORKER}
FAILING = {
    "executor": executor(),
    "local": {"kind": "local", "function": "f"},
    "flow_ref": {"kind": "flow_ref", "flow": "f"},
    "parallel": FAN,
    "foreach": EACH,
    "foreach without a list": {**EACH, "prep": {"input_key": "$params.gone"}},
    "subflow": INNER,
    "wait_event": EVENT,
    "timer": {"kind": "timer", "params": {}},
}


def run_to_end(node: Json, *edges: tuple[str, str], **settings: Any) -> Driver:
    """Run a flow whose first node fails, with these edges from it."""
    drawn = {("n", action): target for action, target in edges}
    driver = a_driver(
        {"n": node, "ship": DONE},
        drawn,
        lambda _: BROKEN,
        params={"list": [1]},
        settings=settings or NOT_WAITING,
    )
    return driver.run()


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("node", FAILING.values(), ids=FAILING)
def test_failed_node_without_an_error_edge_fails_the_task(
    node: Json,
) -> None:
    driver = run_to_end(node, ("default", "ship"))
    assert driver.state.status is RunStatus.FAILED
    assert "ship" not in [row.node_key for row in driver.rows]
    assert driver.state.failed_path[0] == "n"


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("node", FAILING.values(), ids=FAILING)
def test_failed_node_follows_its_error_edge_under_either_policy(node: Json) -> None:
    for policy in ErrorPolicy:
        edges = [("default", ""), ("error", "ship")]
        if node is FAN or node is EACH:
            edges = edges if policy is ErrorPolicy.FAIL else [("default", "ship")]
        driver = run_to_end(node, *edges, error_policy=policy.value, worker_wait_ms=0)
        assert (driver.end, driver.rows[-1].node_key) == ((RunStatus.SUCCEEDED, ""), "ship")


@pytest.mark.proves("R5.14")
def test_default_edge_is_followed_after_a_failure_if_the_definition_allows_it() -> None:
    driver = run_to_end(executor(), ("default", "ship"), error_policy="follow_default")
    assert summarize_rows(driver.rows) == [
        ("n", 1, "error", "broken", "error"),
        ("ship", 1, "ok", "", "default"),
    ]
    assert driver.state.status is RunStatus.SUCCEEDED


@pytest.mark.proves("R5.14")
def test_action_from_on_error_follows_its_own_edge_or_else_the_error_edge() -> None:
    mapped_to_late = executor(on_error="late")
    assert run_to_end(mapped_to_late, ("late", "ship")).state.status is RunStatus.SUCCEEDED
    assert run_to_end(mapped_to_late, ("error", "ship")).state.status is RunStatus.SUCCEEDED
    assert run_to_end(mapped_to_late, ("default", "ship")).state.status is RunStatus.FAILED
    mapped_to_default = executor(on_error="default")
    assert run_to_end(mapped_to_default, ("default", "ship")).state.status is RunStatus.SUCCEEDED


@pytest.mark.proves("R5.14", "R5.12")
def test_fail_fast_fails_the_task_and_keeps_the_successful_outputs() -> None:
    answers = reply_in_order(Reply(5, 1), BROKEN)
    driver = a_driver({"p": FAN, "ship": DONE}, {("p", "default"): "ship"}, answers, settings=FAIL)
    driver.run()
    assert driver.end == (RunStatus.FAILED, "broken")
    assert driver.shared == {"out": [1]}
    collecting = FAN | {"failure_strategy": "collect_errors"}
    assert run_to_end(collecting, ("default", "ship")).state.status is RunStatus.SUCCEEDED


@pytest.mark.proves("R5.14")
def test_failure_within_a_subflow_names_the_inner_node() -> None:
    driver = run_to_end(INNER)
    assert driver.end == (RunStatus.FAILED, "broken")
    assert driver.state.failed_path == ("n", "a")


# The policy of a definition.


@pytest.mark.proves("R5.14")
def test_definition_without_an_error_policy_gets_the_default_at_publishing() -> None:
    definition = a_definition({"a": INNER})
    assert parse_flow(definition).flow.error_policy is ErrorPolicy.FOLLOW_DEFAULT
    strict = parse_flow(definition, default_policy=ErrorPolicy.FAIL).flow
    inner = strict.nodes["a"].subflow
    assert (strict.error_policy, inner and inner.error_policy) == ("fail", "fail")
    stored = canonical_json(strict)
    assert '"error_policy":"fail"' in stored
    assert parse_flow(stored).flow == strict
    named = definition | {"error_policy": "follow_default"}
    assert not parse_flow(named, default_policy=ErrorPolicy.FAIL).flow.fails_on_error


@pytest.mark.proves("R5.14")
def test_unknown_policy_is_refused() -> None:
    for bad in ({"error_policy": "ignore"}, {"worker_wait_ms": -1}):
        with pytest.raises(InvalidFlow):
            parse_flow(a_definition({"a": executor()}) | bad)


# The wait for a worker.


def start_waiting(node: Json | None = None, **more: Any) -> Driver:
    """Return a run without a worker that has waited since 5 ms after its start, for 100 ms."""
    settings = FAIL | {"worker_wait_ms": 100}
    nodes = {"n": node or executor(), "ship": DONE}
    more = {"answer": lambda _: NO_WORKER} | more
    return a_driver(nodes, {("n", "default"): "ship"}, settings=settings, **more)


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("crash", Crash)
def test_missing_worker_is_a_failure_only_at_the_end_of_the_wait(crash: Crash) -> None:
    driver = start_waiting(crash=crash).run(until_ms=104)
    assert (driver.rows, driver.end) == ([], None)
    assert awaited_services(to_cursor(driver.state)) == {"s"}
    assert not driver.in_flight
    driver.run()
    error = "no worker: none offered 's' within 0.1 s"
    assert driver.end == (RunStatus.FAILED, error)
    assert summarize_rows(driver.rows) == [("n", 1, "error", error, "error")]
    assert driver.rows[0].started_at == START + 5 * MS
    if crash is Crash.NEVER:
        assert len(driver.calls()) == 2, "one call at the start and one at the end"


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("crash", Crash)
def test_worker_that_registers_during_the_wait_is_called_at_once(crash: Crash) -> None:
    driver = start_waiting(
        executor(timeout_ms=20), answer=reply_in_order(NO_WORKER, Reply(5, 7)), crash=crash
    )
    driver.run(until_ms=90)
    assert not driver.apply(ServiceOffered("t")).is_changed
    driver.apply(ServiceOffered("s"))
    driver.run()
    assert summarize_rows(driver.rows)[0] == ("n", 1, "ok", "", "default")
    assert driver.end == (RunStatus.SUCCEEDED, "")


@pytest.mark.proves("R5.14")
def test_all_tries_and_branches_of_a_node_share_one_wait() -> None:
    driver = start_waiting(executor(max_retries=2, wait_ms=10)).run()
    assert [row.finished_at - START for row in driver.rows] == [110 * MS, 125 * MS, 140 * MS]
    each = EACH | {"failure_strategy": "ignore_errors"}
    driver = start_waiting(each, params={"list": [1, 2, 3]}).run()
    assert driver.rows[2].finished_at == START + 120 * MS


@pytest.mark.proves("R5.14")
def test_failed_call_at_a_worker_restarts_the_wait_for_a_worker() -> None:
    answers = reply_in_order(NO_WORKER, BROKEN, NO_WORKER, Reply(5, 7))
    driver = start_waiting(executor(max_retries=1), answer=answers).run(until_ms=90)
    driver.apply(ServiceOffered("s"))
    driver.run(until_ms=190)
    assert awaited_services(to_cursor(driver.state)) == {"s"}
    driver.apply(ServiceOffered("s"))
    assert driver.run().end == (RunStatus.SUCCEEDED, "")


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("crash", Crash)
def test_call_that_times_out_at_a_worker_restarts_the_wait(crash: Crash) -> None:
    node = executor(max_retries=1, timeout_ms=150)
    driver = start_waiting(node, crash=crash).run(until_ms=90)
    # A worker takes the first try and never answers; it is gone at the second.
    driver.answer = lambda call: NO_WORKER if call.call_id.endswith(".2.1") else None
    driver.apply(ServiceOffered("s"))
    driver.run(until_ms=300)
    assert [row.error for row in driver.rows] == ["timeout"]
    assert awaited_services(to_cursor(driver.state)) == {"s"}
    assert driver.end is None


@pytest.mark.proves("R5.14")
def test_wait_for_an_unreachable_worker_restarts_after_the_try_times_out() -> None:
    flow = a_flow(
        {"n": executor(max_retries=1, timeout_ms=5_000)}, error_policy="fail", worker_wait_ms=4_000
    )
    driver = Driver(flow)
    driver.apply(Woken())
    driver.apply(CalleeUnavailable("0.0.1.1", "unreachable: refused", WorkerRef("w", "http://w")))
    for after_s in (1, 6):
        driver.now = Instant(START + after_s * SECOND_US)
        driver.apply(Woken())
    assert [row.error for row in driver.rows] == ["timeout"]
    driver.apply(CalleeUnavailable("0.0.2.1", "no worker"))
    assert driver.end is None


@pytest.mark.proves("R5.14")
def test_wait_for_a_worker_restarts_if_the_process_restarts_during_a_call() -> None:
    answers = reply_in_order(NO_WORKER, Reply(9_000, 7), NO_WORKER)
    driver = start_waiting(answer=answers).run(until_ms=90)
    driver.apply(ServiceOffered("s"))
    driver.run(until_ms=400)
    driver.state = driver.store.load(driver.flow, driver.params)
    driver.in_flight.clear()
    driver.apply(Woken())
    driver.run(until_ms=500)
    assert driver.end is None
    assert awaited_services(to_cursor(driver.state)) == {"s"}


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("error", ["", "broken"])
def test_branch_still_waits_for_a_worker_after_another_branch_has_ended(error: str) -> None:
    each = EACH | {"parallel_mode": "concurrent", "max_parallel": 2}
    each |= {"failure_strategy": "ignore_errors", "timeout_ms": 0}
    settings = FAIL | {"worker_wait_ms": 2_000}
    driver = a_driver({"n": each}, params={"list": [1, 2, 3]}, settings=settings)
    driver.apply(Woken())
    w = WorkerRef("w", "http://w")
    driver.apply(Answered("0.0.1.1", 1, w))
    driver.apply(CalleeUnavailable("0.2.1.1", "draining", w))
    driver.now = Instant(START + 500 * MS)
    driver.apply(Failed("0.1.1.1", error, w) if error else Answered("0.1.1.1", 1, w))
    awaited = awaited_worker(driver.state)
    assert awaited is not None
    assert awaited.services == ("s",)
    assert (awaited.since, awaited.until) == (driver.now, driver.now + 2 * SECOND_US)
    driver.now = Instant(START + 2_100 * MS)
    driver.apply(Woken())
    driver.apply(CalleeUnavailable("0.2.1.1", "draining", w))
    assert driver.end is None, "the worker took a call 1.6 s ago"
    driver.now = Instant(START + 2_600 * MS)
    driver.apply(Woken())
    driver.apply(CalleeUnavailable("0.2.1.1", "draining", w))
    assert "draining" in [row.error for row in driver.rows]


@pytest.mark.proves("R5.14")
def test_stored_wait_without_a_start_time_is_shown_since_the_node_was_entered() -> None:
    driver = start_waiting().run(until_ms=50)
    driver.state.frames[-1].missing_since.clear()
    awaited = awaited_worker(driver.state)
    assert awaited is not None
    assert (awaited.since, awaited.until) == (START, START + 100 * MS)


@pytest.mark.proves("R5.14")
def test_unreachable_worker_is_called_again_until_the_wait_ends() -> None:
    unavailable = CalleeUnavailable("0.0.1.1", "unreachable: refused", WorkerRef("w", "http://w"))
    flow = a_flow({"n": executor()}, error_policy="fail", worker_wait_ms=2_500)
    driver = Driver(flow)
    driver.apply(Woken())
    for after_s in (0, 1, 2):
        driver.now = Instant(START + after_s * SECOND_US)
        driver.apply(unavailable)
        assert driver.end is None
        assert awaited_services(to_cursor(driver.state)) == set(), "the node calls again by itself"
        driver.now = Instant(driver.now + SECOND_US)
        driver.apply(Woken())
    driver.apply(unavailable)
    assert driver.end == (RunStatus.FAILED, "unreachable: refused")


@pytest.mark.proves("R5.14")
def test_policy_or_definition_can_disable_the_wait_for_a_worker() -> None:
    for settings in (NOT_WAITING, {"error_policy": "follow_default"}):
        driver = a_driver({"n": executor()}, answer=lambda _: NO_WORKER, settings=settings).run()
        assert driver.end == (RunStatus.FAILED, "no worker")


@pytest.mark.proves("R5.14")
def test_worker_that_failed_is_not_treated_as_missing() -> None:
    answers = reply_in_order(BROKEN, NO_WORKER)
    driver = start_waiting(executor(max_attempts=2), answer=answers).run()
    assert driver.end == (RunStatus.FAILED, "broken")


@pytest.mark.proves("R5.14")
def test_waiting_branch_is_canceled_when_another_one_fails() -> None:
    fan = FAN | {"parallel_mode": "concurrent"}
    driver = start_waiting(fan, answer=reply_in_order(NO_WORKER, Reply(9, error="broken"))).run()
    assert driver.end == (RunStatus.FAILED, "broken")
    assert [row.status.value for row in driver.rows] == ["error", "canceled"]
    late_answer = driver.apply(Answered("0.0.1.1", 1))
    assert not late_answer.is_changed
    assert not driver.apply(Failed("0.0.1.1", "x")).is_changed


# The `fail` node.


def a_fail(**params: Any) -> Json:
    return {"kind": "fail", "params": params}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("out of stock", "out of stock"),
        ("$params.why", "too late"),
        ("$params.list", "[1]"),
        ("$shared.gone", "failed"),
        ("$5 short", "$5 short"),
    ],
)
@pytest.mark.proves("R5.14")
def test_fail_node_ends_the_task_with_its_message_and_code(message: str, expected: str) -> None:
    node = a_fail(message=message, code="stock")
    params = {"why": "too late", "list": [1], "message": "another"}
    driver = a_driver({"f": node}, params=params).run()
    assert driver.end == (RunStatus.FAILED, expected)
    assert (driver.state.error_code, driver.state.failed_path) == ("stock", ("f",))
    assert summarize_rows(driver.rows) == [("f", 1, "error", expected, "")]


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("crash", Crash)
def test_fail_node_in_a_subflow_ends_the_whole_task(crash: Crash) -> None:
    inner = a_definition({"f": a_fail(message="no")})
    sub: Json = {"kind": "subflow", "subflow": inner, "max_retries": 3}
    nodes: dict[str, Json] = {"sf": sub, "ship": DONE}
    edges = {("sf", "default"): "ship", ("sf", "error"): "ship"}
    driver = a_driver(nodes, edges, crash=crash).run()
    assert driver.end == (RunStatus.FAILED, "no")
    assert summarize_rows(driver.rows) == [("f", 1, "error", "no", "")]


@pytest.mark.proves("R5.14")
def test_fail_node_needs_a_message_and_its_edges_are_never_followed() -> None:
    for params in ({}, {"message": 3}, {"message": "$params."}, {"message": "x", "code": 7}):
        with pytest.raises(InvalidFlow):
            parse_flow(a_definition({"f": a_fail(**params)}))
    definition = a_definition({"f": a_fail(message="no"), "on": DONE}, {("f", "default"): "on"})
    warnings = dict(parse_flow(definition).warnings)
    assert "never followed" in warnings["nodes.f"]
    assert warnings["nodes.on"].startswith("is never reached")


# The warnings of publishing.


def publish_warnings(definition: Json, **settings: Any) -> dict[str, str]:
    return dict(parse_flow(definition | settings).warnings)


@pytest.mark.proves("R5.14")
def test_publishing_warns_if_a_failed_node_would_follow_its_success_edge() -> None:
    nodes = {"credit": executor(), "ship": executor()}
    definition = a_definition(nodes, {("credit", "default"): "ship"})
    assert publish_warnings(definition)["nodes.credit"].startswith(
        'continues to "ship" after a failure too'
    )
    assert "nodes.ship" not in publish_warnings(definition), "its failure fails the task"
    assert publish_warnings(definition, error_policy="fail") == {}
    guarded = a_definition(nodes, {("credit", "default"): "ship", ("credit", "error"): ""})
    assert publish_warnings(guarded) == {}
    mapped = {"credit": executor(on_error="late"), "ship": executor()}
    edges = {("credit", "default"): "ship", ("credit", "late"): ""}
    assert publish_warnings(a_definition(mapped, edges)) == {}
    fan = a_definition({"p": FAN, "ship": executor()}, {("p", "default"): "ship"})
    assert publish_warnings(fan)["nodes.p"].startswith('continues to "ship" after a failed branch')
    assert publish_warnings(a_definition({"p": FAN}, {("p", "default"): ""}))["nodes.p"].startswith(
        "ends the"
    )


@pytest.mark.proves("R5.14")
def test_publishing_warns_of_an_error_action_without_an_edge() -> None:
    definition = a_definition({"n": executor(on_error={"timeout": "late"})})
    (warning,) = publish_warnings(definition, error_policy="fail").items()
    assert warning == (
        "nodes.n.on_error.timeout",
        (
            'there is no edge for "late", so the failure fails the task;'
            " add the edge or change the action"
        ),
    )


@pytest.mark.proves("R5.14")
def test_bare_name_with_a_dot_is_refused_and_the_path_is_suggested() -> None:
    definition = a_definition({"a": executor(prep={"input_key": "order.total"})})
    with pytest.raises(InvalidFlow) as raised:
        parse_flow(definition | FAIL)
    ((path, problem),) = raised.value.errors
    assert path == "nodes.a.prep.input_key"
    assert '"$shared.order.total" or "$params.order.total"' in problem
    assert publish_warnings(definition)[path] == problem, "publishing by a program only warns"
    mapped = a_definition({"a": executor(prep={"input_map": {"x": "items[0]"}})})
    with pytest.raises(InvalidFlow, match=r"nodes\.a\.prep\.input_map\.x"):
        parse_flow(mapped | FAIL)


@pytest.mark.proves("R5.14")
def test_bare_name_with_a_dot_is_a_key_if_a_node_or_a_signal_writes_it() -> None:
    reading = executor(prep={"input_key": "order.total"})
    writers = {
        "output_key": executor(post={"output_key": "order.total"}),
        "output_map": executor(post={"output_map": {"order.total": "x"}}),
        "signal": {"kind": "wait_event", "params": {"signal_key": "order.total"}},
    }
    for writer in writers.values():
        nodes = {"w": writer, "a": reading}
        assert publish_warnings(a_definition(nodes, {("w", "default"): "a"}), **FAIL) == {}
    inner = {"kind": "subflow", "subflow": a_definition({"a": reading})}
    with pytest.raises(InvalidFlow, match="no node writes"):
        parse_flow(a_definition({"w": writers["output_key"], "sf": inner}) | FAIL)
