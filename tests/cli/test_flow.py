"""`headway flow …` and `headway task …`: published, started, steered and looked at."""

import json
from pathlib import Path

import pytest

from tests.cli.command import fault, headway

pytestmark = pytest.mark.backend("sqlite")

ASK = {
    "start": "ask",
    "nodes": {"ask": {"kind": "approval", "params": {"approval_key": "$shared.ok"}}},
    "edges": [],
}


def test_i15_a_definition_is_checked_without_a_database(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"start": "z", "nodes": {"a": {"kind": "magic"}}}')
    ended = headway("flow", "validate", "bad.json", folder=tmp_path)
    assert ended.code == 1
    assert "fault    nodes.a.kind: " in ended.out
    assert "fault    start: " in ended.out
    (tmp_path / "good.json").write_text(json.dumps(ASK))
    good = headway("flow", "validate", "good.json", "--json", folder=tmp_path)
    assert (good.code, json.loads(good.out)) == (0, {"faults": [], "warnings": []})
    assert not (tmp_path / "headway.db").exists()
    lost = headway("flow", "push", "asks", "lost.json", folder=tmp_path)
    assert "lost.json cannot be read" in fault(lost)


def test_r5_9_a_flow_is_pushed_and_a_task_started_and_canceled(tmp_path: Path) -> None:
    (tmp_path / "ask.json").write_text(json.dumps(ASK))
    pushed = headway("flow", "push", "asks", "ask.json", folder=tmp_path)
    assert pushed.out == "asks version 1\n"
    assert headway("flow", "list", folder=tmp_path).out == "asks  version 1\n"
    shown = json.loads(headway("flow", "show", "asks", folder=tmp_path).out)
    assert set(shown["nodes"]) == {"ask"}
    assert "flowchart" in headway("flow", "graph", "asks", folder=tmp_path).out
    task_id = headway("flow", "start", "asks", "--params", '{"n": 1}', folder=tmp_path).out.strip()
    assert headway("task", "signal", task_id, "more", "[1]", folder=tmp_path).code == 0
    told = json.loads(headway("task", "get", task_id, "--json", folder=tmp_path).out)
    assert (told["status"], told["params"], told["shared"]) == ("queued", {"n": 1}, {"more": [1]})
    refused = headway("task", "approve", task_id, folder=tmp_path)
    assert "takes no approval now: it waits for none" in fault(refused)
    assert headway("task", "cancel", task_id, folder=tmp_path).out == "canceled\n"
    watched = headway("task", "watch", task_id, folder=tmp_path).out.splitlines()
    assert watched[0].split()[:3] == ["1", "ask", "canceled"]
    assert headway("task", "list", folder=tmp_path).out == f"{watched[-1]}\n"
    assert "there is no flow 'none'" in fault(headway("flow", "start", "none", folder=tmp_path))
