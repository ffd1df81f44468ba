"""`--json` everywhere: what a program can read, of every command that says something."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from cyclopts import App

from headway.cli.commands import flow_commands as flows
from headway.cli.commands import task_commands as tasks
from headway.cli.main import app
from tests.api.test_flows import waiting
from tests.cli.reached import Said

LONG_LIVED: Final = {("serve",), ("worker",), ("demo",), ("completion",)}
"""They go on until they are stopped, or print what a shell reads."""


def commands(group: App, chain: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    for name in group:
        if name.startswith("-"):
            continue
        found = group[name]
        if found.default_command is not None:
            yield (*chain, name), found
        yield from commands(found, (*chain, name))


def test_every_command_takes_json() -> None:
    found = dict(commands(app))
    assert len(found) > 40
    without = {
        words
        for words, command in found.items()
        if "json" not in inspect.signature(command.default_command).parameters  # type: ignore[arg-type]
    }
    assert without == LONG_LIVED


@pytest.mark.backend("sqlite")
async def test_with_json_flows_and_tasks_are_objects(said: Said, tmp_path: Path) -> None:
    ask = {"kind": "approval", "params": {"approval_key": "$shared.ok"}}
    (tmp_path / "ask.json").write_text(json.dumps({"start": "ask", "nodes": {"ask": ask}}))
    await said.lines(flows.push("asks", tmp_path / "ask.json"))
    (shown,) = await said.json(flows.show("asks", json=True))
    assert (shown["name"], shown["definition"]["start"]) == ("asks", "ask")
    (drawn,) = await said.json(flows.graph("asks", json=True))
    assert drawn["mermaid"].startswith("flowchart")
    (started,) = await said.json(flows.start("asks", json=True))
    task_id = started["id"]
    await waiting(said.client, task_id, "approval")
    (signalled,) = await said.json(tasks.signal(task_id, "more", "1", json=True))
    assert signalled["shared"]["more"] == 1
    (approved,) = await said.json(tasks.approve(task_id, json=True))
    assert approved["id"] == task_id
    *rows, ended = await said.json(tasks.watch(task_id, json=True))
    assert (ended["id"], ended["status"], rows[-1]["node"]) == (task_id, "succeeded", "ask")
    (again,) = await said.json(tasks.rerun(task_id, "ask", json=True))
    assert again["rerun_of"] == task_id
    (other,) = await said.json(flows.start("asks", json=True))
    await waiting(said.client, other["id"], "approval")
    (told,) = await said.json(tasks.cancel(other["id"], delete_files=True, json=True))
    assert (told["answer"], told["task"]["id"]) == ("canceled", other["id"])


@pytest.mark.backend("sqlite")
async def test_more_than_a_page_is_listed_to_its_end(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.cli.client.api_client.PAGE_SIZE_MAX", 2)
    definition = {"start": "a", "nodes": {"a": {"kind": "choice"}}}
    for name in "abcde":
        await said.client.hw.flows.publish(name, definition)
    assert len(await said.lines(flows.list_())) == 5
    for _ in range(5):
        await said.client.hw.run((await said.client.hw.flows.start("a")).id).wait_for_end()
    assert len(await said.lines(tasks.list_(limit=50))) == 5
    assert len(await said.lines(tasks.list_(limit=3))) == 3


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_what_is_too_large_for_a_page_is_read_to_its_end(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.api.http.cursor.PAGE_BYTE_COUNT_MAX", 1)
    nodes = {"a": {"kind": "choice"}, "b": {"kind": "choice"}}
    definition = {"start": "a", "nodes": nodes, "edges": [{"from": "a", "to": "b"}]}
    await said.client.hw.flows.publish("two", definition)
    await (await said.client.hw.flows.start("two")).wait_for_end()
    run = await said.client.hw.flows.start("two")
    await run.wait_for_end()
    (shown,) = await said.json(tasks.get(run.id, json=True))
    assert [row["node"] for row in shown["node_runs"]] == ["a", "b"]
    assert len(await said.lines(tasks.watch(run.id))) == 3
    assert len(await said.lines(tasks.list_())) == 2
