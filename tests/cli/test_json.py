"""Every command that prints results has `--json`."""

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
from tests.api.test_flows import wait_until_waiting
from tests.cli.command_runner import CommandRunner

WITHOUT_JSON: Final = {("serve",), ("worker",), ("demo",), ("completion",)}
"""Commands that run until they are stopped, or print a script for a shell."""


def commands(group: App, chain: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    for name in group:
        if name.startswith("-"):
            continue
        command = group[name]
        if command.default_command is not None:
            yield (*chain, name), command
        yield from commands(command, (*chain, name))


def test_every_command_has_the_json_option() -> None:
    every_command = dict(commands(app))
    assert len(every_command) > 40
    without = {
        names
        for names, command in every_command.items()
        if "json" not in inspect.signature(command.default_command).parameters  # type: ignore[arg-type]
    }
    assert without == WITHOUT_JSON


@pytest.mark.backend("sqlite")
async def test_json_output_of_flows_and_tasks_is_objects(
    cli: CommandRunner, tmp_path: Path
) -> None:
    ask = {"kind": "approval", "params": {"approval_key": "$shared.ok"}}
    (tmp_path / "ask.json").write_text(json.dumps({"start": "ask", "nodes": {"ask": ask}}))
    await cli.lines(flows.push("asks", tmp_path / "ask.json"))
    (shown,) = await cli.json(flows.show("asks", json=True))
    assert (shown["name"], shown["definition"]["start"]) == ("asks", "ask")
    (drawn,) = await cli.json(flows.graph("asks", json=True))
    assert drawn["mermaid"].startswith("flowchart")
    (started,) = await cli.json(flows.start("asks", json=True))
    task_id = started["id"]
    await wait_until_waiting(cli.client, task_id, "approval")
    (signalled,) = await cli.json(tasks.signal(task_id, "more", "1", json=True))
    assert signalled["shared"]["more"] == 1
    (approved,) = await cli.json(tasks.approve(task_id, json=True))
    assert approved["id"] == task_id
    *rows, ended = await cli.json(tasks.watch(task_id, json=True))
    assert (ended["id"], ended["status"], rows[-1]["node"]) == (task_id, "succeeded", "ask")
    (again,) = await cli.json(tasks.rerun(task_id, "ask", json=True))
    assert again["rerun_of"] == task_id
    (other,) = await cli.json(flows.start("asks", json=True))
    await wait_until_waiting(cli.client, other["id"], "approval")
    (canceled,) = await cli.json(tasks.cancel(other["id"], delete_files=True, json=True))
    assert (canceled["answer"], canceled["task"]["id"]) == ("canceled", other["id"])


@pytest.mark.backend("sqlite")
async def test_lists_longer_than_a_page_are_read_to_the_end(
    cli: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.cli.client.api_client.PAGE_SIZE_MAX", 2)
    definition = {"start": "a", "nodes": {"a": {"kind": "choice"}}}
    for name in "abcde":
        await cli.client.hw.flows.publish(name, definition)
    assert len(await cli.lines(flows.list_())) == 5
    for _ in range(5):
        await cli.client.hw.run((await cli.client.hw.flows.start("a")).id).wait_for_end()
    assert len(await cli.lines(tasks.list_(limit=50))) == 5
    assert len(await cli.lines(tasks.list_(limit=3))) == 3


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_rows_too_large_for_a_page_are_read_to_the_end(
    cli: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.api.http.cursor.PAGE_BYTE_COUNT_MAX", 1)
    nodes = {"a": {"kind": "choice"}, "b": {"kind": "choice"}}
    definition = {"start": "a", "nodes": nodes, "edges": [{"from": "a", "to": "b"}]}
    await cli.client.hw.flows.publish("two", definition)
    await (await cli.client.hw.flows.start("two")).wait_for_end()
    run = await cli.client.hw.flows.start("two")
    await run.wait_for_end()
    (shown,) = await cli.json(tasks.get(run.id, json=True))
    assert [row["node"] for row in shown["node_runs"]] == ["a", "b"]
    assert len(await cli.lines(tasks.watch(run.id))) == 3
    assert len(await cli.lines(tasks.list_())) == 2
