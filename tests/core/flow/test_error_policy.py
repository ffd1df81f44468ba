"""R5.14: the policy after a failed node, and the wait for a missing worker."""

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
from tests.core.flow.scenes import a_definition, a_driver, a_flow, executor, replies, told

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


def ended(node: Json, *edges: tuple[str, str], **settings: Any) -> Driver:
    """A run whose first node fails, with these edges from it."""
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
def test_a_failed_node_without_an_error_edge_fails_the_task_and_not_the_next_node(
    node: Json,
) -> None:
    driver = ended(node, ("default", "ship"))
    assert driver.state.status is RunStatus.FAILED
    assert "ship" not in [row.node_key for row in driver.rows]
    assert driver.state.failed_path[0] == "n"


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("node", FAILING.values(), ids=FAILING)
def test_a_failed_node_follows_its_error_edge_under_either_policy(node: Json) -> None:
    for policy in ErrorPolicy:
        edges = [("default", ""), ("error", "ship")]
        if node is FAN or node is EACH:
            edges = edges if policy is ErrorPolicy.FAIL else [("default", "ship")]
        driver = ended(node, *edges, error_policy=policy.value, worker_wait_ms=0)
        assert (driver.end, driver.rows[-1].node_key) == ((RunStatus.SUCCEEDED, ""), "ship")


@pytest.mark.proves("R5.14")
def test_the_default_edge_is_followed_after_a_failure_if_the_definition_says_so() -> None:
    driver = ended(executor(), ("default", "ship"), error_policy="follow_default")
    assert told(driver.rows) == [
        ("n", 1, "error", "broken", "error"),
        ("ship", 1, "ok", "", "default"),
    ]
    assert driver.state.status is RunStatus.SUCCEEDED


@pytest.mark.proves("R5.14")
def test_an_action_of_on_error_needs_its_own_edge_or_the_error_edge() -> None:
    late = executor(on_error="late")
    assert ended(late, ("late", "ship")).state.status is RunStatus.SUCCEEDED
    assert ended(late, ("error", "ship")).state.status is RunStatus.SUCCEEDED
    assert ended(late, ("default", "ship")).state.status is RunStatus.FAILED
    meant = executor(on_error="default")
    assert ended(meant, ("default", "ship")).state.status is RunStatus.SUCCEEDED


@pytest.mark.proves("R5.14", "R5.12")
def test_fail_fast_fails_the_task_and_keeps_what_has_succeeded() -> None:
    answers = replies(Reply(5, 1), BROKEN)
    driver = a_driver({"p": FAN, "ship": DONE}, {("p", "default"): "ship"}, answers, settings=FAIL)
    driver.run()
    assert driver.end == (RunStatus.FAILED, "broken")
    assert driver.shared == {"out": [1]}
    collecting = FAN | {"failure_strategy": "collect_errors"}
    assert ended(collecting, ("default", "ship")).state.status is RunStatus.SUCCEEDED


@pytest.mark.proves("R5.14")
def test_a_failure_within_a_subflow_names_the_inner_node() -> None:
    driver = ended(INNER)
    assert driver.end == (RunStatus.FAILED, "broken")
    assert driver.state.failed_path == ("n", "a")


# The policy of a definition.


def test_a_definition_without_a_policy_takes_that_of_where_it_is_published() -> None:
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


def test_a_policy_that_does_not_exist_is_refused() -> None:
    for bad in ({"error_policy": "ignore"}, {"worker_wait_ms": -1}):
        with pytest.raises(InvalidFlow):
            parse_flow(a_definition({"a": executor()}) | bad)


# The wait for a worker.


def waiting(node: Json | None = None, **more: Any) -> Driver:
    """A run that waits, since 5 ms after its start, for 100 ms, because there is no worker."""
    settings = FAIL | {"worker_wait_ms": 100}
    nodes = {"n": node or executor(), "ship": DONE}
    more = {"answer": lambda _: NO_WORKER} | more
    return a_driver(nodes, {("n", "default"): "ship"}, settings=settings, **more)


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("crash", Crash)
def test_a_missing_worker_is_a_failure_only_at_the_end_of_the_wait(crash: Crash) -> None:
    driver = waiting(crash=crash).run(until_ms=104)
    assert (driver.rows, driver.end) == ([], None)
    assert awaited_services(to_cursor(driver.state)) == {"s"}
    assert not driver.under_way
    driver.run()
    error = "no worker: none offered 's' within 0.1 s"
    assert driver.end == (RunStatus.FAILED, error)
    assert told(driver.rows) == [("n", 1, "error", error, "error")]
    assert driver.rows[0].started_at == START + 5 * MS
    if crash is Crash.NEVER:
        assert len(driver.calls()) == 2, "once at first, and once at the end"


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("crash", Crash)
def test_a_worker_that_comes_is_asked_at_once(crash: Crash) -> None:
    driver = waiting(executor(timeout_ms=20), answer=replies(NO_WORKER, Reply(5, 7)), crash=crash)
    driver.run(until_ms=90)
    assert not driver.happen(ServiceOffered("t")).is_changed
    driver.happen(ServiceOffered("s"))
    driver.run()
    assert told(driver.rows)[0] == ("n", 1, "ok", "", "default")
    assert driver.end == (RunStatus.SUCCEEDED, "")


@pytest.mark.proves("R5.14")
def test_all_tries_and_branches_of_a_node_share_one_wait() -> None:
    driver = waiting(executor(max_retries=2, wait_ms=10)).run()
    assert [row.finished_at - START for row in driver.rows] == [110 * MS, 125 * MS, 140 * MS]
    each = EACH | {"failure_strategy": "ignore_errors"}
    driver = waiting(each, params={"list": [1, 2, 3]}).run()
    assert driver.rows[2].finished_at == START + 120 * MS


@pytest.mark.proves("R5.14")
def test_a_worker_that_was_asked_begins_a_new_wait() -> None:
    answers = replies(NO_WORKER, BROKEN, NO_WORKER, Reply(5, 7))
    driver = waiting(executor(max_retries=1), answer=answers).run(until_ms=90)
    driver.happen(ServiceOffered("s"))
    driver.run(until_ms=190)
    assert awaited_services(to_cursor(driver.state)) == {"s"}
    driver.happen(ServiceOffered("s"))
    assert driver.run().end == (RunStatus.SUCCEEDED, "")


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("crash", Crash)
def test_a_call_that_times_out_at_a_worker_begins_a_new_wait(crash: Crash) -> None:
    node = executor(max_retries=1, timeout_ms=150)
    driver = waiting(node, crash=crash).run(until_ms=90)
    # A worker takes the first try and never answers; it is gone at the second.
    driver.answer = lambda call: NO_WORKER if call.call_id.endswith(".2.1") else None
    driver.happen(ServiceOffered("s"))
    driver.run(until_ms=300)
    assert [row.error for row in driver.rows] == ["timeout"]
    assert awaited_services(to_cursor(driver.state)) == {"s"}
    assert driver.end is None


@pytest.mark.proves("R5.14")
def test_a_timeout_after_a_wait_for_an_unreachable_worker_begins_a_new_wait() -> None:
    flow = a_flow(
        {"n": executor(max_retries=1, timeout_ms=5_000)}, error_policy="fail", worker_wait_ms=4_000
    )
    driver = Driver(flow)
    driver.happen(Woken())
    driver.happen(CalleeUnavailable("0.0.1.1", "unreachable: refused", WorkerRef("w", "http://w")))
    for after_s in (1, 6):
        driver.now = Instant(START + after_s * SECOND_US)
        driver.happen(Woken())
    assert [row.error for row in driver.rows] == ["timeout"]
    driver.happen(CalleeUnavailable("0.0.2.1", "no worker"))
    assert driver.end is None


@pytest.mark.proves("R5.14")
def test_a_restart_during_a_call_after_a_wait_begins_a_new_wait() -> None:
    answers = replies(NO_WORKER, Reply(9_000, 7), NO_WORKER)
    driver = waiting(answer=answers).run(until_ms=90)
    driver.happen(ServiceOffered("s"))
    driver.run(until_ms=400)
    driver.state = driver.store.load(driver.flow, driver.params)
    driver.under_way.clear()
    driver.happen(Woken())
    driver.run(until_ms=500)
    assert driver.end is None
    assert awaited_services(to_cursor(driver.state)) == {"s"}


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize("error", ["", "broken"])
def test_a_branch_still_waits_after_a_worker_has_ended_another_one(error: str) -> None:
    each = EACH | {"parallel_mode": "concurrent", "max_parallel": 2}
    each |= {"failure_strategy": "ignore_errors", "timeout_ms": 0}
    settings = FAIL | {"worker_wait_ms": 2_000}
    driver = a_driver({"n": each}, params={"list": [1, 2, 3]}, settings=settings)
    driver.happen(Woken())
    w = WorkerRef("w", "http://w")
    driver.happen(Answered("0.0.1.1", 1, w))
    driver.happen(CalleeUnavailable("0.2.1.1", "draining", w))
    driver.now = Instant(START + 500 * MS)
    driver.happen(Failed("0.1.1.1", error, w) if error else Answered("0.1.1.1", 1, w))
    awaited = awaited_worker(driver.state)
    assert awaited is not None
    assert awaited.services == ("s",)
    assert (awaited.since, awaited.until) == (driver.now, driver.now + 2 * SECOND_US)
    driver.now = Instant(START + 2_100 * MS)
    driver.happen(Woken())
    driver.happen(CalleeUnavailable("0.2.1.1", "draining", w))
    assert driver.end is None, "the worker took a call 1.6 s ago"
    driver.now = Instant(START + 2_600 * MS)
    driver.happen(Woken())
    driver.happen(CalleeUnavailable("0.2.1.1", "draining", w))
    assert "draining" in [row.error for row in driver.rows]


def test_a_stored_wait_without_a_beginning_is_shown_from_when_the_node_was_entered() -> None:
    driver = waiting().run(until_ms=50)
    driver.state.frames[-1].missing_since.clear()
    awaited = awaited_worker(driver.state)
    assert awaited is not None
    assert (awaited.since, awaited.until) == (START, START + 100 * MS)


@pytest.mark.proves("R5.14")
def test_a_worker_that_cannot_be_reached_is_asked_again_until_the_wait_is_over() -> None:
    gone = CalleeUnavailable("0.0.1.1", "unreachable: refused", WorkerRef("w", "http://w"))
    flow = a_flow({"n": executor()}, error_policy="fail", worker_wait_ms=2_500)
    driver = Driver(flow)
    driver.happen(Woken())
    for after_s in (0, 1, 2):
        driver.now = Instant(START + after_s * SECOND_US)
        driver.happen(gone)
        assert driver.end is None
        assert awaited_services(to_cursor(driver.state)) == set(), "it asks again by itself"
        driver.now = Instant(driver.now + SECOND_US)
        driver.happen(Woken())
    driver.happen(gone)
    assert driver.end == (RunStatus.FAILED, "unreachable: refused")


def test_no_worker_is_waited_for_where_the_policy_or_the_definition_says_so() -> None:
    for settings in (NOT_WAITING, {"error_policy": "follow_default"}):
        driver = a_driver({"n": executor()}, answer=lambda _: NO_WORKER, settings=settings).run()
        assert driver.end == (RunStatus.FAILED, "no worker")


def test_a_worker_that_has_failed_is_no_missing_worker() -> None:
    answers = replies(BROKEN, NO_WORKER)
    driver = waiting(executor(max_attempts=2), answer=answers).run()
    assert driver.end == (RunStatus.FAILED, "broken")


def test_a_branch_that_waits_is_given_up_when_another_one_fails() -> None:
    fan = FAN | {"parallel_mode": "concurrent"}
    driver = waiting(fan, answer=replies(NO_WORKER, Reply(9, error="broken"))).run()
    assert driver.end == (RunStatus.FAILED, "broken")
    assert [row.status.value for row in driver.rows] == ["error", "canceled"]
    late = driver.happen(Answered("0.0.1.1", 1))
    assert not late.is_changed
    assert not driver.happen(Failed("0.0.1.1", "x")).is_changed


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
def test_a_fail_node_ends_the_task_with_its_message_and_code(message: str, expected: str) -> None:
    node = a_fail(message=message, code="stock")
    params = {"why": "too late", "list": [1], "message": "another"}
    driver = a_driver({"f": node}, params=params).run()
    assert driver.end == (RunStatus.FAILED, expected)
    assert (driver.state.error_code, driver.state.failed_path) == ("stock", ("f",))
    assert told(driver.rows) == [("f", 1, "error", expected, "")]


@pytest.mark.parametrize("crash", Crash)
def test_a_fail_node_in_a_subflow_ends_the_whole_task(crash: Crash) -> None:
    inner = a_definition({"f": a_fail(message="no")})
    sub: Json = {"kind": "subflow", "subflow": inner, "max_retries": 3}
    nodes: dict[str, Json] = {"sf": sub, "ship": DONE}
    edges = {("sf", "default"): "ship", ("sf", "error"): "ship"}
    driver = a_driver(nodes, edges, crash=crash).run()
    assert driver.end == (RunStatus.FAILED, "no")
    assert told(driver.rows) == [("f", 1, "error", "no", "")]


def test_a_fail_node_says_why_and_leads_nowhere() -> None:
    for params in ({}, {"message": 3}, {"message": "$params."}, {"message": "x", "code": 7}):
        with pytest.raises(InvalidFlow):
            parse_flow(a_definition({"f": a_fail(**params)}))
    definition = a_definition({"f": a_fail(message="no"), "on": DONE}, {("f", "default"): "on"})
    places = dict(parse_flow(definition).warnings)
    assert "never followed" in places["nodes.f"]
    assert places["nodes.on"] == "is never reached"


# The warnings of publishing.


def warned(definition: Json, **settings: Any) -> dict[str, str]:
    return dict(parse_flow(definition | settings).warnings)


@pytest.mark.proves("R5.14")
def test_publishing_warns_where_a_failure_would_be_followed_as_a_success_is() -> None:
    nodes = {"credit": executor(), "ship": executor()}
    definition = a_definition(nodes, {("credit", "default"): "ship"})
    assert warned(definition)["nodes.credit"].startswith('continues to "ship" after a failure too')
    assert "nodes.ship" not in warned(definition), "its failure fails the task"
    assert warned(definition, error_policy="fail") == {}
    guarded = a_definition(nodes, {("credit", "default"): "ship", ("credit", "error"): ""})
    assert warned(guarded) == {}
    mapped = {"credit": executor(on_error="late"), "ship": executor()}
    edges = {("credit", "default"): "ship", ("credit", "late"): ""}
    assert warned(a_definition(mapped, edges)) == {}
    fan = a_definition({"p": FAN, "ship": executor()}, {("p", "default"): "ship"})
    assert warned(fan)["nodes.p"].startswith('continues to "ship" after a failed branch')
    assert warned(a_definition({"p": FAN}, {("p", "default"): ""}))["nodes.p"].startswith(
        "ends the"
    )


@pytest.mark.proves("R5.14")
def test_publishing_warns_of_an_error_action_that_no_edge_is_drawn_for() -> None:
    definition = a_definition({"n": executor(on_error={"timeout": "late"})})
    (warning,) = warned(definition, error_policy="fail").items()
    assert warning == (
        "nodes.n.on_error.timeout",
        'there is no edge for "late": the failure fails the task',
    )


@pytest.mark.proves("R5.14")
def test_a_bare_name_with_a_dot_is_refused_and_the_path_is_suggested() -> None:
    definition = a_definition({"a": executor(prep={"input_key": "order.total"})})
    with pytest.raises(InvalidFlow) as raised:
        parse_flow(definition | FAIL)
    ((place, problem),) = raised.value.errors
    assert place == "nodes.a.prep.input_key"
    assert '"$shared.order.total" or "$params.order.total"' in problem
    assert warned(definition)[place] == problem, "programs that publish it are only warned"
    mapped = a_definition({"a": executor(prep={"input_map": {"x": "items[0]"}})})
    with pytest.raises(InvalidFlow, match=r"nodes\.a\.prep\.input_map\.x"):
        parse_flow(mapped | FAIL)


@pytest.mark.proves("R5.14")
def test_a_bare_name_with_a_dot_is_a_key_if_a_node_or_a_signal_writes_it() -> None:
    reading = executor(prep={"input_key": "order.total"})
    writers = {
        "output_key": executor(post={"output_key": "order.total"}),
        "output_map": executor(post={"output_map": {"order.total": "x"}}),
        "signal": {"kind": "wait_event", "params": {"signal_key": "order.total"}},
    }
    for writer in writers.values():
        nodes = {"w": writer, "a": reading}
        assert warned(a_definition(nodes, {("w", "default"): "a"}), **FAIL) == {}
    inner = {"kind": "subflow", "subflow": a_definition({"a": reading})}
    with pytest.raises(InvalidFlow, match="no node writes"):
        parse_flow(a_definition({"w": writers["output_key"], "sf": inner}) | FAIL)
