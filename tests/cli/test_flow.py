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
    assert headway("db", "upgrade", folder=tmp_path).code == 0
    pushed = headway("flow", "push", "asks", "ask.json", folder=tmp_path)
    assert pushed.out == "asks version 1\n"
    task_id = headway("flow", "start", "asks", "--params", '{"n": 1}', folder=tmp_path).out.strip()
    assert headway("task", "cancel", task_id, folder=tmp_path).out == "canceled\n"
    watched = headway("task", "watch", task_id, folder=tmp_path)
    assert watched.code == 1
    assert watched.out.splitlines()[0].split()[:3] == ["1", "ask", "canceled"]
    missing = headway("flow", "start", "none", folder=tmp_path)
    assert (missing.code, missing.err) == (4, "headway: there is no flow 'none' (published)\n")
