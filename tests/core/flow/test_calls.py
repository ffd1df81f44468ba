"""Executor, local and flow_ref nodes: tries, workers, timeouts, errors as actions.

Proves R5.3, R5.4 and R5.10.
"""

from typing import Any

import pytest

from headway.core.flow.engine.effects import CallFlow, CallFunction, CallService, CancelCall
from headway.core.flow.engine.inputs import Answered, Failed, Woken, WorkerRef
from headway.core.run.status import RunStatus
from tests.core.flow.driver import MS, START, Crash, Reply
from tests.core.flow.reference_values import Json
from tests.core.flow.scenes import a_driver, executor, reply_in_order, summarize_rows

NO_WORKER = Reply(1, error="no worker", worker_id=None)
BROKEN = Reply(1, error="broken")


@pytest.mark.proves("R5.4")
def test_executor_gets_its_input_and_the_parameters_of_node_and_task() -> None:
    node = executor(prep={"input_key": "$params.text"}, params={"op": "upper", "both": "node"})
    params = {"text": "hi", "both": "run"}
    driver = a_driver({"a": node}, params=params).run()
    [call] = driver.calls()
    assert isinstance(call, CallService)
    assert call.input == "hi"
    assert call.params == {"text": "hi", "op": "upper", "both": "node"}
    assert (call.service, call.try_no, call.attempt, call.excluded) == ("s", 1, 1, ())


@pytest.mark.proves("R5.12")
def test_input_map_selects_the_input_and_output_map_distributes_the_output() -> None:
    prep = {"input_map": {"x": "$params.deep.list[1]", "y": "kept", "z": "$shared.gone.far"}}
    post = {"output_map": {"one": "first", "none": "gone"}, "output_key": "whole"}
    node = executor(prep=prep, post=post)
    answer = reply_in_order(Reply(1, {"first": 1, "second": 2}))
    params = {"deep": {"list": [0, "here"]}}
    driver = a_driver({"a": node}, {}, answer, params=params, shared={"kept": True}).run()
    assert driver.rows[0].input == {"x": "here", "y": True, "z": None}
    output = {"first": 1, "second": 2}
    assert driver.shared == {"kept": True, "one": 1, "none": None, "whole": output}


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("crash", Crash)
def test_node_is_tried_again_after_a_delay_with_one_node_run_per_try(crash: Crash) -> None:
    node = executor(max_retries=2, wait_ms=50)

    def answer(call: Any) -> Reply:
        return BROKEN if call.try_no < 3 else Reply(1, "at last")

    driver = a_driver({"a": node}, {}, answer, crash=crash).run()
    assert driver.end == (RunStatus.SUCCEEDED, "")
    assert summarize_rows(driver.rows) == [
        ("a", 1, "error", "broken", ""),
        ("a", 2, "error", "broken", ""),
        ("a", 3, "ok", "", "default"),
    ]
    times = [(row.finished_at - START) // MS for row in driver.rows]
    assert times == [1, 52, 103]
    assert [row.is_settled for row in driver.rows] == [False, False, True]


@pytest.mark.proves("R5.4")
def test_node_without_an_edge_ends_the_run_with_its_own_failure_or_success() -> None:
    failed = a_driver({"a": executor()}, {}, reply_in_order(BROKEN)).run()
    assert failed.end == (RunStatus.FAILED, "broken")
    succeeded = a_driver({"a": executor()}, {}, reply_in_order(Reply(1, 1))).run()
    assert succeeded.end == (RunStatus.SUCCEEDED, "")


@pytest.mark.proves("R5.10")
@pytest.mark.parametrize(
    ("edges", "way", "status"),
    [
        ({("a", "error"): "b", ("a", "default"): "c"}, "b", RunStatus.SUCCEEDED),
        ({("a", "default"): "c"}, "c", RunStatus.SUCCEEDED),
        ({("a", "other"): "b"}, "a", RunStatus.FAILED),
        ({("a", "error"): ""}, "a", RunStatus.SUCCEEDED),
        ({("a", "default"): ""}, "a", RunStatus.FAILED),
    ],
)
def test_failure_follows_its_error_edge_or_else_the_default_edge(
    edges: dict[tuple[str, str], str], way: str, status: RunStatus
) -> None:
    nodes = {"a": executor(), "b": executor(), "c": executor()}
    driver = a_driver(nodes, edges, reply_in_order(BROKEN, Reply(1, 1))).run()
    assert driver.rows[-1].node_key == way
    assert driver.state.status == status


@pytest.mark.proves("R5.10")
@pytest.mark.parametrize(
    ("on_error", "error", "action"),
    [
        ("guard", "broken", "guard"),
        ({"broken": "mend", "*": "guard"}, "broken", "mend"),
        ({"bad": "mend", "*": "guard"}, "bad: luck", "mend"),
        ({"bad": "mend", "*": "guard"}, "other", "guard"),
        ({"bad": "mend"}, "other", "error"),
    ],
)
def test_on_error_maps_an_error_to_its_action(
    on_error: str | Json, error: str, action: str
) -> None:
    nodes = {"a": executor(on_error=on_error, post={"error_key": "why"}), "b": executor()}
    driver = a_driver(nodes, {("a", action): "b"}, reply_in_order(Reply(1, error=error))).run()
    assert driver.state.frames[0].node.key == "b"
    assert driver.rows[0].action == driver.state.last_action == action
    assert driver.shared == {"why": error}


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("crash", Crash)
def test_other_workers_are_called_within_a_try_and_the_last_error_is_reported(crash: Crash) -> None:
    node = executor(max_attempts=3, attempt_delay_ms=20, weighted_by_load=True)

    def answer(call: Any) -> Reply:
        if call.attempt == 3:
            return NO_WORKER
        return Reply(1, error=f"broken {call.attempt}", worker_id=f"w{call.attempt}")

    driver = a_driver({"a": node}, {}, answer, crash=crash).run()
    assert driver.end == (RunStatus.FAILED, "broken 2")
    assert len(driver.rows) == 1
    calls = {call.call_id: call for call in driver.calls() if isinstance(call, CallService)}
    attempts = [(call.attempt, call.excluded, call.prefers_least_load) for call in calls.values()]
    assert attempts == [(1, (), True), (2, ("w1",), True), (3, ("w1", "w2"), True)]


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("crash", Crash)
@pytest.mark.parametrize("fields", [{}, {"max_attempts": 0}], ids=["absent", "0"])
def test_without_max_attempts_every_live_worker_is_called_in_one_try(
    fields: Json, crash: Crash
) -> None:
    node = {"kind": "executor", "service": "s", "attempt_delay_ms": 20, **fields}

    def answer(call: Any) -> Reply:
        if call.attempt == 150:
            return Reply(1, "done", worker_id="w150")
        return Reply(1, error="broken", worker_id=f"w{call.attempt}")

    driver = a_driver({"a": node}, {}, answer, crash=crash).run()
    assert driver.end == (RunStatus.SUCCEEDED, "")
    ((row,), calls) = driver.rows, {call.call_id: call for call in driver.calls()}
    assert (row.attempt, row.output, row.worker) == (1, "done", WorkerRef("w150", "http://w"))
    last = list(calls.values())[-1]
    assert isinstance(last, CallService)
    assert last.excluded == tuple(f"w{number}" for number in range(1, 150))
    assert driver.now - START == (150 + 149 * 20) * MS


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("crash", Crash)
@pytest.mark.parametrize("end", [NO_WORKER, Reply(1, error="broken", worker_id="w2", is_last=True)])
def test_node_run_names_the_last_worker_that_answered_if_no_worker_is_left(
    end: Reply, crash: Crash
) -> None:
    node = {"kind": "executor", "service": "s"}

    def answer(call: Any) -> Reply:
        return Reply(1, error="broken", worker_id="w1") if call.attempt == 1 else end

    driver = a_driver({"a": node}, {}, answer, crash=crash).run()
    (row,) = driver.rows
    last_worker_id = end.worker_id or "w1"
    assert (row.error, row.worker) == ("broken", WorkerRef(last_worker_id, "http://w"))
    assert driver.end == (RunStatus.FAILED, "broken")


@pytest.mark.proves("R5.4")
def test_try_ends_without_a_delay_when_the_only_worker_has_failed() -> None:
    node = {"kind": "executor", "service": "s", "attempt_delay_ms": 5_000}
    only = Reply(1, error="broken", worker_id="w1", is_last=True)
    driver = a_driver({"a": node}, {}, reply_in_order(only)).run()
    assert (driver.end, driver.now - START) == ((RunStatus.FAILED, "broken"), MS)


@pytest.mark.proves("R5.4")
def test_new_try_may_call_every_worker_again() -> None:
    node = executor(max_attempts=2, max_retries=1)
    driver = a_driver({"a": node}, {}, reply_in_order(BROKEN, BROKEN, BROKEN, BROKEN)).run()
    calls = [call for call in driver.calls() if isinstance(call, CallService)]
    attempts = [(call.try_no, call.attempt, call.excluded) for call in calls]
    assert attempts == [(1, 1, ()), (1, 2, ("w1",)), (2, 1, ()), (2, 2, ("w1",))]
    assert [(row.attempt, row.error) for row in driver.rows] == [(1, "broken"), (2, "broken")]


@pytest.mark.proves("R5.4")
def test_final_failure_is_not_tried_again() -> None:
    node = executor(max_retries=5, max_attempts=5)
    driver = a_driver({"a": node}, {}, reply_in_order(Reply(1, error="no", is_final=True))).run()
    assert summarize_rows(driver.rows) == [("a", 1, "error", "no", "error")]


@pytest.mark.proves("R5.10")
@pytest.mark.parametrize("crash", [Crash.NEVER, Crash.LOSE])
def test_call_of_a_try_that_times_out_is_cancelled_at_the_worker(crash: Crash) -> None:
    node = executor(timeout_ms=100, max_retries=1, wait_ms=5, on_error={"timeout": "late"})
    driver = a_driver({"a": node, "b": executor()}, {("a", "late"): "b"}, crash=crash).run(300)
    assert summarize_rows(driver.rows) == [
        ("a", 1, "error", "timeout", ""),
        ("a", 2, "error", "timeout", "late"),
    ]
    assert [(row.finished_at - START) // MS for row in driver.rows] == [100, 205]
    cancels = [command.call_id for command in driver.commands if isinstance(command, CancelCall)]
    assert cancels == ["0.0.1.1", "0.0.2.1"]
    assert [command.call_id for command in driver.in_flight.values()] == ["2.0.1.1"]


@pytest.mark.proves("I1")
def test_answer_to_an_ended_call_changes_nothing() -> None:
    driver = a_driver({"a": executor(max_retries=1)}).run()
    call_id = driver.calls()[0].call_id
    for stale in (
        "",
        "x",
        "0.7.1.1",
        "0.x.1.1",
        "9.0.1.1",
        "0." + "1" * 5_000 + ".1",
        call_id + "9",
    ):
        assert not driver.apply(Answered(stale, 1)).is_changed
        assert not driver.apply(Failed(stale, "late")).is_changed
    driver.apply(Failed(call_id, "broken", WorkerRef("w", "u")))
    assert not driver.apply(Answered(call_id, 1)).is_changed
    driver.apply(Answered(driver.calls()[1].call_id, 2))
    assert driver.state.status == RunStatus.SUCCEEDED
    assert not driver.apply(Answered(driver.calls()[1].call_id, 3)).is_changed
    assert not driver.apply(Woken()).is_changed


@pytest.mark.proves("R5.4")
def test_failure_with_an_empty_message_still_fails_the_task() -> None:
    driver = a_driver({"a": executor()}, {}, lambda _: None).run()
    driver.apply(Failed(driver.calls()[0].call_id, "", WorkerRef("w", "u")))
    assert driver.end == (RunStatus.FAILED, "failed")


@pytest.mark.proves("R5.3")
def test_local_node_calls_a_function() -> None:
    node = {"kind": "local", "function": "double", "prep": {"input_key": "$params.n"}}
    driver = a_driver({"a": node}, {}, reply_in_order(Reply(1, 4)), params={"n": 2}).run()
    [call] = driver.calls()
    assert isinstance(call, CallFunction)
    assert (call.function, call.input, call.params) == ("double", 2, {"n": 2})


@pytest.mark.proves("R5.3")
@pytest.mark.parametrize("crash", Crash)
def test_flow_ref_starts_a_child_and_takes_over_its_shared_state(crash: Crash) -> None:
    node = {
        "kind": "flow_ref",
        "flow": "resize",
        "version": 3,
        "prep": {"input_key": "$params.n"},
        "params": {"size": 9},
        "post": {"output_key": "child"},
    }
    driver = a_driver(
        {"a": node}, {}, reply_in_order(Reply(50, {"done": 1})), params={"n": 2}, crash=crash
    ).run()
    starts = [command for command in driver.commands if isinstance(command, CallFlow)]
    assert set(map(repr, starts)) == {
        repr(CallFlow("0.0.1.1", "resize", 3, {"n": 2, "size": 9, "input": 2}))
    }
    assert driver.shared == {"child": {"done": 1}}


@pytest.mark.proves("R5.5")
def test_time_limit_of_a_child_continues_while_the_parent_is_down() -> None:
    node = {"kind": "flow_ref", "flow": "slow", "timeout_ms": 100}
    driver = a_driver({"a": node}, {}, lambda _: None, crash=Crash.RELOAD).run(60)
    driver.apply(Woken())
    driver.run(100)
    assert summarize_rows(driver.rows) == [("a", 1, "error", "timeout", "error")]
    assert driver.commands[-1] == CancelCall("0.0.1.1", is_child=True)
    assert driver.end == (RunStatus.FAILED, "timeout")


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize(
    ("post", "default_action", "action"),
    [
        ({"action_static": "s", "action_key": "k"}, "d", "s"),
        ({"action_key": "k"}, "d", "in result"),
        ({"action_key": "shared only"}, "d", "in shared"),
        ({"action_key": "$params.p"}, "d", "in params"),
        ({"action_key": "number"}, "d", "d"),
        ({"action_key": "nowhere"}, "", "default"),
        ({"action_key": "long"}, "d", "d"),
        ({}, "d", "d"),
        ({}, "", "default"),
    ],
)
def test_action_of_a_node_is_taken_from_the_first_source_that_provides_one(
    post: Json, default_action: str, action: str
) -> None:
    result = {"k": "in result", "number": 3, "long": "x" * 300}
    node = executor(post=post, default_action=default_action)
    shared = {"k": "never", "shared only": "in shared"}
    driver = a_driver({"a": node}, {}, reply_in_order(Reply(1, result)), params={"p": "in params"},
                      shared=shared).run()  # fmt: skip
    assert driver.rows[0].action == action
