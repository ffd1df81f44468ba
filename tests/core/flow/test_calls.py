"""R5.3, R5.4, R5.10: executor, local and flow_ref; tries, workers, timeouts, errors as actions."""

from typing import Any

import pytest

from headway.core.flow.engine.effects import CallFlow, CallFunction, CallService, CancelCall
from headway.core.flow.engine.inputs import Answered, Failed, Woken, WorkerRef
from headway.core.run.status import RunStatus
from tests.core.flow.driver import MS, START, Crash, Reply
from tests.core.flow.reference_values import Json
from tests.core.flow.scenes import a_driver, executor, replies, told

NO_WORKER = Reply(1, error="no worker", worker_id=None)
BROKEN = Reply(1, error="broken")


@pytest.mark.proves("R5.4")
def test_an_executor_gets_its_input_and_both_parameters() -> None:
    node = executor(prep={"input_key": "$params.text"}, params={"op": "upper", "both": "node"})
    params = {"text": "hi", "both": "run"}
    driver = a_driver({"a": node}, params=params).run()
    [call] = driver.calls()
    assert isinstance(call, CallService)
    assert call.input == "hi"
    assert call.params == {"text": "hi", "op": "upper", "both": "node"}
    assert (call.service, call.try_no, call.attempt, call.excluded) == ("s", 1, 1, ())


@pytest.mark.proves("R5.12")
def test_maps_pick_the_input_and_spread_the_output() -> None:
    prep = {"input_map": {"x": "$params.deep.list[1]", "y": "kept", "z": "$shared.gone.far"}}
    post = {"output_map": {"one": "first", "none": "gone"}, "output_key": "whole"}
    node = executor(prep=prep, post=post)
    answer = replies(Reply(1, {"first": 1, "second": 2}))
    params = {"deep": {"list": [0, "here"]}}
    driver = a_driver({"a": node}, {}, answer, params=params, shared={"kept": True}).run()
    assert driver.rows[0].input == {"x": "here", "y": True, "z": None}
    whole = {"first": 1, "second": 2}
    assert driver.shared == {"kept": True, "one": 1, "none": None, "whole": whole}


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("crash", Crash)
def test_a_node_is_tried_again_after_a_wait_with_a_node_run_each(crash: Crash) -> None:
    node = executor(max_retries=2, wait_ms=50)

    def answer(call: Any) -> Reply:
        return BROKEN if call.try_no < 3 else Reply(1, "at last")

    driver = a_driver({"a": node}, {}, answer, crash=crash).run()
    assert driver.end == (RunStatus.SUCCEEDED, "")
    assert told(driver.rows) == [
        ("a", 1, "error", "broken", ""),
        ("a", 2, "error", "broken", ""),
        ("a", 3, "ok", "", "default"),
    ]
    times = [(row.finished_at - START) // MS for row in driver.rows]
    assert times == [1, 52, 103]
    assert [row.is_settled for row in driver.rows] == [False, False, True]


@pytest.mark.proves("R5.4")
def test_without_an_edge_a_failure_fails_the_run_and_a_success_completes_it() -> None:
    failed = a_driver({"a": executor()}, {}, replies(BROKEN)).run()
    assert failed.end == (RunStatus.FAILED, "broken")
    done = a_driver({"a": executor()}, {}, replies(Reply(1, 1))).run()
    assert done.end == (RunStatus.SUCCEEDED, "")


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
def test_a_failure_follows_its_error_edge_else_the_default_edge(
    edges: dict[tuple[str, str], str], way: str, status: RunStatus
) -> None:
    nodes = {"a": executor(), "b": executor(), "c": executor()}
    driver = a_driver(nodes, edges, replies(BROKEN, Reply(1, 1))).run()
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
def test_on_error_gives_an_error_its_action(on_error: str | Json, error: str, action: str) -> None:
    nodes = {"a": executor(on_error=on_error, post={"error_key": "why"}), "b": executor()}
    driver = a_driver(nodes, {("a", action): "b"}, replies(Reply(1, error=error))).run()
    assert driver.state.frames[0].node.key == "b"
    assert driver.rows[0].action == driver.state.last_action == action
    assert driver.shared == {"why": error}


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("crash", Crash)
def test_within_a_try_other_workers_are_asked_and_the_last_error_counts(crash: Crash) -> None:
    node = executor(max_attempts=3, attempt_delay_ms=20, weighted_by_load=True)

    def answer(call: Any) -> Reply:
        if call.attempt == 3:
            return NO_WORKER
        return Reply(1, error=f"broken {call.attempt}", worker_id=f"w{call.attempt}")

    driver = a_driver({"a": node}, {}, answer, crash=crash).run()
    assert driver.end == (RunStatus.FAILED, "broken 2")
    assert len(driver.rows) == 1
    calls = {call.call_id: call for call in driver.calls() if isinstance(call, CallService)}
    seen = [(one.attempt, one.excluded, one.prefers_least_load) for one in calls.values()]
    assert seen == [(1, (), True), (2, ("w1",), True), (3, ("w1", "w2"), True)]


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("crash", Crash)
@pytest.mark.parametrize("fields", [{}, {"max_attempts": 0}], ids=["absent", "0"])
def test_without_max_attempts_every_live_worker_is_asked_in_one_try(
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
def test_when_no_worker_is_left_the_node_run_names_the_last_one_that_answered(
    end: Reply, crash: Crash
) -> None:
    node = {"kind": "executor", "service": "s"}

    def answer(call: Any) -> Reply:
        return Reply(1, error="broken", worker_id="w1") if call.attempt == 1 else end

    driver = a_driver({"a": node}, {}, answer, crash=crash).run()
    (row,) = driver.rows
    asked = end.worker_id or "w1"
    assert (row.error, row.worker) == ("broken", WorkerRef(asked, "http://w"))
    assert driver.end == (RunStatus.FAILED, "broken")


@pytest.mark.proves("R5.4")
def test_when_a_failed_worker_was_the_only_one_the_try_ends_without_a_delay() -> None:
    node = {"kind": "executor", "service": "s", "attempt_delay_ms": 5_000}
    only = Reply(1, error="broken", worker_id="w1", is_last=True)
    driver = a_driver({"a": node}, {}, replies(only)).run()
    assert (driver.end, driver.now - START) == ((RunStatus.FAILED, "broken"), MS)


@pytest.mark.proves("R5.4")
def test_a_new_try_may_ask_every_worker_again() -> None:
    node = executor(max_attempts=2, max_retries=1)
    driver = a_driver({"a": node}, {}, replies(BROKEN, BROKEN, BROKEN, BROKEN)).run()
    calls = [call for call in driver.calls() if isinstance(call, CallService)]
    seen = [(call.try_no, call.attempt, call.excluded) for call in calls]
    assert seen == [(1, 1, ()), (1, 2, ("w1",)), (2, 1, ()), (2, 2, ("w1",))]
    assert [(row.attempt, row.error) for row in driver.rows] == [(1, "broken"), (2, "broken")]


@pytest.mark.proves("R5.4")
def test_a_final_failure_is_tried_no_more() -> None:
    node = executor(max_retries=5, max_attempts=5)
    driver = a_driver({"a": node}, {}, replies(Reply(1, error="no", is_final=True))).run()
    assert told(driver.rows) == [("a", 1, "error", "no", "error")]


@pytest.mark.proves("R5.10")
@pytest.mark.parametrize("crash", [Crash.NEVER, Crash.LOSE])
def test_a_try_that_takes_too_long_is_given_up_and_the_worker_told(crash: Crash) -> None:
    node = executor(timeout_ms=100, max_retries=1, wait_ms=5, on_error={"timeout": "late"})
    driver = a_driver({"a": node, "b": executor()}, {("a", "late"): "b"}, crash=crash).run(300)
    assert told(driver.rows) == [
        ("a", 1, "error", "timeout", ""),
        ("a", 2, "error", "timeout", "late"),
    ]
    assert [(row.finished_at - START) // MS for row in driver.rows] == [100, 205]
    cancels = [one.call_id for one in driver.commands if isinstance(one, CancelCall)]
    assert cancels == ["0.0.1.1", "0.0.2.1"]
    assert [one.call_id for one in driver.under_way.values()] == ["2.0.1.1"]


@pytest.mark.proves("I1")
def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
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
        assert not driver.happen(Answered(stale, 1)).is_changed
        assert not driver.happen(Failed(stale, "late")).is_changed
    driver.happen(Failed(call_id, "broken", WorkerRef("w", "u")))
    assert not driver.happen(Answered(call_id, 1)).is_changed
    driver.happen(Answered(driver.calls()[1].call_id, 2))
    assert driver.state.status == RunStatus.SUCCEEDED
    assert not driver.happen(Answered(driver.calls()[1].call_id, 3)).is_changed
    assert not driver.happen(Woken()).is_changed


@pytest.mark.proves("R5.4")
def test_a_failure_without_a_word_is_a_failure() -> None:
    driver = a_driver({"a": executor()}, {}, lambda _: None).run()
    driver.happen(Failed(driver.calls()[0].call_id, "", WorkerRef("w", "u")))
    assert driver.end == (RunStatus.FAILED, "failed")


@pytest.mark.proves("R5.3")
def test_local_calls_a_function() -> None:
    node = {"kind": "local", "function": "double", "prep": {"input_key": "$params.n"}}
    driver = a_driver({"a": node}, {}, replies(Reply(1, 4)), params={"n": 2}).run()
    [call] = driver.calls()
    assert isinstance(call, CallFunction)
    assert (call.function, call.input, call.params) == ("double", 2, {"n": 2})


@pytest.mark.proves("R5.3")
@pytest.mark.parametrize("crash", Crash)
def test_flow_ref_starts_a_child_and_takes_its_shared_state(crash: Crash) -> None:
    node = {
        "kind": "flow_ref",
        "flow": "resize",
        "version": 3,
        "prep": {"input_key": "$params.n"},
        "params": {"size": 9},
        "post": {"output_key": "child"},
    }
    driver = a_driver(
        {"a": node}, {}, replies(Reply(50, {"done": 1})), params={"n": 2}, crash=crash
    ).run()
    starts = [one for one in driver.commands if isinstance(one, CallFlow)]
    assert set(map(repr, starts)) == {
        repr(CallFlow("0.0.1.1", "resize", 3, {"n": 2, "size": 9, "input": 2}))
    }
    assert driver.shared == {"child": {"done": 1}}


@pytest.mark.proves("R5.5")
def test_the_time_of_a_child_goes_on_while_the_parent_is_away() -> None:
    node = {"kind": "flow_ref", "flow": "slow", "timeout_ms": 100}
    driver = a_driver({"a": node}, {}, lambda _: None, crash=Crash.RELOAD).run(60)
    driver.happen(Woken())
    driver.run(100)
    assert told(driver.rows) == [("a", 1, "error", "timeout", "error")]
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
def test_the_action_comes_from_the_first_place_that_has_one(
    post: Json, default_action: str, action: str
) -> None:
    result = {"k": "in result", "number": 3, "long": "x" * 300}
    node = executor(post=post, default_action=default_action)
    shared = {"k": "never", "shared only": "in shared"}
    driver = a_driver({"a": node}, {}, replies(Reply(1, result)), params={"p": "in params"},
                      shared=shared).run()  # fmt: skip
    assert driver.rows[0].action == action
