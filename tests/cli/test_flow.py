"""`headway flow …` and `headway task …`: publish, start, signal and show."""

import json
from pathlib import Path

import pytest

from tests.cli.command import error_sentence, headway

pytestmark = pytest.mark.backend("sqlite")

ASK = {
    "start": "ask",
    "nodes": {"ask": {"kind": "approval", "params": {"approval_key": "$shared.ok"}}},
    "edges": [],
}


@pytest.mark.proves("I15")
def test_definition_is_validated_without_a_database(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"start": "z", "nodes": {"a": {"kind": "magic"}}}')
    result = headway("flow", "validate", "bad.json", folder=tmp_path)
    assert result.code == 1
    assert "error    nodes.a.kind must be one of" in result.out
    assert "error    start: " in result.out
    (tmp_path / "good.json").write_text(json.dumps(ASK))
    good = headway("flow", "validate", "good.json", "--json", folder=tmp_path)
    assert (good.code, json.loads(good.out)) == (0, {"errors": [], "warnings": []})
    assert not (tmp_path / "headway.db").exists()
    missing = headway("flow", "push", "asks", "lost.json", folder=tmp_path)
    assert "lost.json cannot be read" in error_sentence(missing)


@pytest.mark.proves("R5.9")
def test_flow_is_pushed_and_a_task_started_and_canceled(tmp_path: Path) -> None:
    (tmp_path / "ask.json").write_text(json.dumps(ASK))
    assert headway("db", "upgrade", folder=tmp_path).code == 0
    pushed = headway("flow", "push", "asks", "ask.json", folder=tmp_path)
    assert pushed.out == "asks version 1\n"
    task_id = headway("flow", "start", "asks", "--params", '{"n": 1}', folder=tmp_path).out.strip()
    assert headway("task", "cancel", task_id, folder=tmp_path).out == "canceled\n"
    watched = headway("task", "watch", task_id, folder=tmp_path)
    assert watched.code == 1
    assert watched.out.splitlines()[0].split()[:3] == ["1", "ask", "canceled"]
    missing = headway("flow", "start", "none", folder=tmp_path)
    assert (missing.code, missing.err) == (4, "headway: there is no published flow 'none'\n")


@pytest.mark.proves("R5.6")
def test_commands_accept_the_ids_of_the_root_paths(tmp_path: Path) -> None:
    (tmp_path / "ask.json").write_text(json.dumps(ASK))
    assert headway("db", "upgrade", folder=tmp_path).code == 0
    pushed = json.loads(headway("flow", "push", "asks", "ask.json", "--json", folder=tmp_path).out)
    run_id = headway("flow", "start", pushed["id"], folder=tmp_path).out.strip()
    task_id = f"task-{run_id}"
    assert headway("task", "get", task_id, folder=tmp_path).out.startswith(run_id)
    assert headway("explain", task_id, folder=tmp_path).code == 0
    assert headway("task", "cancel", task_id, folder=tmp_path).out == "canceled\n"
    watched = headway("task", "watch", task_id, folder=tmp_path)
    assert watched.out.split()[:5] == ["1", "ask", "canceled", "->", "canceled"]
    shown = headway("flow", "show", pushed["version_id"], folder=tmp_path)
    assert json.loads(shown.out)["start"] == "ask"


@pytest.mark.proves("R5.15")
def test_unknown_fields_cause_warnings_and_unsupported_fields_are_refused(tmp_path: Path) -> None:
    assert headway("db", "upgrade", folder=tmp_path).code == 0
    (tmp_path / "odd.json").write_text(json.dumps(ASK | {"colour": "red"}))
    pushed = headway("flow", "push", "asks", "odd.json", folder=tmp_path)
    assert (pushed.code, pushed.out.splitlines()[-1]) == (0, "asks version 1")
    assert "warning  colour is an unknown field" in pushed.out
    (tmp_path / "later.json").write_text(json.dumps(ASK | {"parallel_execs": [{"func": "f"}]}))
    for command in (("validate",), ("push", "asks")):
        refused = headway("flow", *command, "later.json", folder=tmp_path)
        assert refused.code != 0
        assert "parallel_execs is not supported" in refused.out + refused.err


@pytest.mark.proves("R5.14")
def test_strict_option_turns_warnings_into_errors(tmp_path: Path) -> None:
    ship = {"kind": "timer", "params": {"delay_ms": 1}}
    flow = {
        "start": "credit",
        "nodes": {"credit": {"kind": "executor", "service": "s"}, "ship": ship},
        "edges": [{"from": "credit", "to": "ship"}],
        "error_policy": "follow_default",
    }
    (tmp_path / "lenient.json").write_text(json.dumps(flow))
    warned = headway("flow", "validate", "lenient.json", folder=tmp_path)
    assert (warned.code, warned.out.splitlines()[-1]) == (0, "valid")
    assert 'warning  nodes.credit: continues to "ship" after a failure too' in warned.out
    refused = headway("flow", "validate", "lenient.json", "--strict", folder=tmp_path)
    assert refused.code == 1
    assert refused.out.startswith("error    nodes.credit: ")
    (tmp_path / "strict.json").write_text(json.dumps(flow | {"error_policy": "fail"}))
    assert headway("flow", "validate", "strict.json", "--strict", folder=tmp_path).code == 0
    assert headway("db", "upgrade", folder=tmp_path).code == 0
    pushed = headway("flow", "push", "s", "lenient.json", "--strict", folder=tmp_path)
    assert (pushed.code, pushed.out) == (2, "")
    assert "nodes.credit" in pushed.err


@pytest.mark.proves("R5.14")
def test_definition_without_an_error_policy_is_validated_with_the_policy_fail(
    tmp_path: Path,
) -> None:
    node = {"kind": "executor", "service": "s", "prep": {"input_key": "order.total"}}
    (tmp_path / "f.json").write_text(json.dumps({"start": "a", "nodes": {"a": node}}))
    refused = headway("flow", "validate", "f.json", folder=tmp_path)
    assert refused.code == 1
    assert '"$shared.order.total"' in refused.out
