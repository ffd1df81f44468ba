"""Timers, events and approvals; signals that are early, late or repeated (R5.3, R5.11, I18)."""

from typing import Any

import pytest

from headway.core.errors import InvalidInput
from headway.core.flow.engine.inputs import Signalled, Woken, check_signal_key
from headway.core.flow.engine.run_state import visible_shared
from headway.core.run.status import RunStatus
from headway.services.flow.waiting_nodes import APPROVAL, EVENT, awaited_key, wait_reason
from tests.core.flow.driver import MS, START, Crash, Reply
from tests.core.flow.reference_values import Json
from tests.core.flow.scenes import a_driver, executor, summarize_rows


def a_wait(**fields: Any) -> Json:
    return {"kind": "wait_event", "params": {"signal_key": "$shared.flag"}, **fields}


def an_approval(**fields: Any) -> Json:
    return {"kind": "approval", "params": {"approval_key": "$shared.ok"}, **fields}


@pytest.mark.proves("I18")
@pytest.mark.parametrize("crash", Crash)
def test_timer_ends_at_its_time_and_not_before(crash: Crash) -> None:
    node = {
        "kind": "timer",
        "params": {"delay_ms": 3_000},
        "prep": {"input_key": "$params.n"},
        "post": {"action_static": "next", "output_key": "kept"},
    }
    driver = a_driver({"a": node}, params={"n": 1}, crash=crash)
    assert driver.apply(Woken()).wake_at == START + 3_000 * MS
    driver.now += 3_000 * MS - 1  # type: ignore[assignment]
    assert driver.apply(Woken()).rows == []
    driver.now += 1  # type: ignore[assignment]
    driver.apply(Woken())
    assert driver.shared == {"kept": 1}
    assert summarize_rows(driver.rows) == [("a", 1, "ok", "", "next")]


@pytest.mark.proves("R5.3")
@pytest.mark.parametrize("delay", [-1, "5", True, None, 10**15])
def test_invalid_delay_fails_the_node(delay: Any) -> None:
    driver = a_driver({"a": {"kind": "timer"}}, params={"delay_ms": delay}).run()
    assert driver.state.status is RunStatus.FAILED
    assert "delay_ms" in driver.state.error


@pytest.mark.proves("R5.11")
@pytest.mark.parametrize("crash", Crash)
@pytest.mark.parametrize("is_early", [True, False])
def test_signal_ends_the_wait_even_if_it_came_before_the_wait(crash: Crash, is_early: bool) -> None:
    nodes = {"a": executor(), "w": a_wait(post={"output_key": "got", "action_key": "act"})}
    answer = lambda _: Reply(100)  # noqa: E731
    driver = a_driver(nodes, {("a", "default"): "w"}, answer, crash=crash)
    driver.signal_after(50 if is_early else 150, "flag", {"act": "go"})
    driver.run()
    assert driver.shared == {"flag": {"act": "go"}, "got": {"act": "go"}}
    assert summarize_rows(driver.rows)[-1] == ("w", 1, "ok", "", "go")


@pytest.mark.proves("R5.11")
@pytest.mark.parametrize(
    ("value", "fires"),
    [(None, False), ("", False), (False, False), (0, True), ("no", True), ([], True)],
)
def test_any_value_except_null_false_and_empty_text_ends_a_wait_for_an_event(
    value: Any, fires: bool
) -> None:
    driver = a_driver({"w": a_wait()}).run()
    assert (wait_reason(driver.state), awaited_key(driver.state)) == (EVENT, "flag")
    driver.apply(Signalled("other", True))
    driver.apply(Signalled("flag", value))
    assert driver.state.is_over == fires
    assert driver.shared == {"other": True, "flag": value}


@pytest.mark.proves("R5.11")
@pytest.mark.parametrize("crash", Crash)
def test_wait_without_a_signal_fails_with_a_timeout_error(crash: Crash) -> None:
    node = a_wait(on_error={"timeout": "late"}, max_retries=1, wait_ms=10)
    node["params"]["timeout_ms"] = 60
    nodes = {"w": node, "z": executor()}
    driver = a_driver(nodes, {("w", "late"): "z"}, crash=crash).run(1_000)
    assert summarize_rows(driver.rows) == [
        ("w", 1, "error", "timeout", ""),
        ("w", 2, "error", "timeout", "late"),
    ]
    assert [(row.finished_at - START) // MS for row in driver.rows] == [60, 130]


@pytest.mark.proves("R5.11")
def test_signal_at_the_instant_of_the_timeout_is_accepted() -> None:
    node = a_wait(timeout_ms=60)
    driver = a_driver({"w": node})
    driver.signal_after(60, "flag", 1)
    driver.run()
    assert summarize_rows(driver.rows) == [("w", 1, "ok", "", "default")]


@pytest.mark.proves("I3")
def test_all_late_signals_are_applied_before_the_timeout() -> None:
    driver = a_driver({"w": a_wait(timeout_ms=60)}).run(0)
    driver.now += 100 * MS  # type: ignore[assignment]
    assert driver.apply(Signalled("other", 1)).wake_at == START + 60 * MS
    driver.apply(Signalled("flag", 1))
    assert summarize_rows(driver.rows) == [("w", 1, "ok", "", "default")]


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize(
    ("answer", "post", "action"),
    [
        (True, {}, "approved"),
        (False, {}, "rejected"),
        ("later", {}, "later"),
        ({"approved": True, "by": "ann"}, {}, "approved"),
        ({"word": "maybe"}, {"action_key": "word"}, "maybe"),
        (True, {"action_key": "ok"}, "approved"),
        ("yes", {"action_key": "ok"}, "yes"),
        (7, {"action_static": "numbered"}, "numbered"),
        (True, {"action_static": "next"}, "next"),
        ("later", {"action_static": "next", "action_key": "ok"}, "next"),
        (7, {}, "default"),
    ],
)
def test_answer_to_an_approval_selects_the_action(answer: Any, post: Json, action: str) -> None:
    node = an_approval(post={"output_key": "answer", **post}, prep={"input_key": "$params.what"})
    driver = a_driver({"a": node}, params={"what": "delete 9"}).run()
    assert (wait_reason(driver.state), awaited_key(driver.state)) == (APPROVAL, "ok")
    assert driver.state.frames[-1].input == "delete 9"
    driver.apply(Signalled("ok", None))
    driver.apply(Signalled("ok", ""))
    assert not driver.state.is_over
    driver.apply(Signalled("ok", answer))
    assert summarize_rows(driver.rows) == [("a", 1, "ok", "", action)]
    assert driver.shared == {"ok": answer, "answer": answer}


@pytest.mark.proves("R5.11")
@pytest.mark.parametrize("crash", Crash)
def test_approval_in_a_loop_asks_again_after_its_answer_was_consumed(crash: Crash) -> None:
    ask = an_approval(post={"output_key": "last"})
    ask["params"]["consume"] = True
    nodes = {"ask": ask, "mend": executor()}
    edges = {("ask", "rejected"): "mend", ("mend", "default"): "ask", ("ask", "approved"): ""}
    driver = a_driver(nodes, edges, lambda _: Reply(10), crash=crash)
    for after_ms, value in ((5, False), (50, False), (100, True)):
        driver.signal_after(after_ms, "ok", value)
    driver.run()
    assert [row.node_key for row in driver.rows] == ["ask", "mend", "ask", "mend", "ask"]
    assert driver.shared == {"last": True}


@pytest.mark.proves("R5.11")
@pytest.mark.parametrize("crash", Crash)
def test_wait_within_a_subflow_receives_the_signals_of_the_run(crash: Crash) -> None:
    inner = {"start": "w", "nodes": {"w": a_wait(post={"output_key": "got"})}}
    nodes = {"sf": {"kind": "subflow", "subflow": inner, "post": {"output_key": "out"}}}
    driver = a_driver(nodes, crash=crash)
    driver.signal_after(20, "flag", 5)
    driver.run()
    assert driver.shared == {"flag": 5, "out": {"got": 5}}


@pytest.mark.proves("R5.5")
@pytest.mark.parametrize("crash", Crash)
def test_signal_does_not_change_the_input_of_a_node_in_progress(crash: Crash) -> None:
    node = {
        "kind": "foreach",
        "service": "s",
        "prep": {"input_key": "items"},
        "post": {"output_key": "out"},
    }
    answer = lambda call: Reply(10, call.input * 2)  # noqa: E731
    driver = a_driver({"a": node}, {}, answer, shared={"items": [1, 2, 3]}, crash=crash)
    driver.signal_after(15, "items", "gone")
    driver.run()
    assert driver.shared == {"items": "gone", "out": [2, 4, 6]}


@pytest.mark.proves("R5.11")
@pytest.mark.parametrize("key", ["", "  ", "_rt", "x" * 300, "a\x00", "\x01" * 87])
def test_reserved_keys_cannot_be_signalled(key: str) -> None:
    with pytest.raises(InvalidInput):
        check_signal_key(key)


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize(
    ("node", "run_state"),
    [
        ({"kind": "timer", "params": {"delay_ms": 9}}, {"tm:a": {"start": START // MS}}),
        (a_wait(), {"we:a": {"start": START // MS}}),
        (an_approval(), {"ap:a": {"start": START // MS}}),
    ],
)
def test_run_state_of_a_wait_is_visible_until_it_ends(node: Json, run_state: Json) -> None:
    driver = a_driver({"a": node}, shared={"x": 1}).run(0)
    assert visible_shared(driver.state) == {"x": 1, "_rt": run_state}
    driver.signal_after(9, "flag", 1)
    driver.signal_after(9, "ok", True)
    driver.run()
    assert "_rt" not in visible_shared(driver.state)
