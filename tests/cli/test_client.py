"""Every command prints the same for a server and for a database."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headway.cli.client.api_client import ApiError
from headway.cli.commands import database_commands as database
from headway.cli.commands import flow_commands as flows
from headway.cli.commands import key_commands as keys
from headway.cli.commands import lane_commands as lanes
from headway.cli.commands import run_commands as runs
from headway.cli.commands import schedule_commands as schedules
from headway.cli.commands import task_commands as tasks
from headway.cli.commands import watch
from headway.cli.exit_codes import EXIT_CONFLICT, EXIT_INVALID, EXIT_NOT_FOUND, exit_with_error
from headway.core.errors import InvalidInput
from headway.core.run.admission import OnConflict
from tests.cli.command_runner import CommandRunner
from tests.engine.flow.scenes import wait_until_parked

pytestmark = pytest.mark.backend("sqlite")


def exit_code(error: Exception) -> int:
    with pytest.raises(SystemExit) as exited:
        exit_with_error(error, ())
    return int(str(exited.value.code))


@pytest.mark.proves("R1.11")
async def test_run_is_submitted_watched_and_shown(cli: CommandRunner) -> None:
    (run_id,) = await cli.lines(runs.submit("echo", "said=[1, 2]", key="ann"))
    *events, outcome = await cli.lines(watch.watch(run_id))
    kinds = [line.split("\t")[1:] for line in events]
    assert kinds == [["run_state_changed", state] for state in ("Queued", "Running", "Done")]
    assert outcome.startswith("succeeded after ")
    assert outcome.endswith(": [1, 2]")
    facts = dict(line.split("\t") for line in await cli.lines(runs.get(run_id)))
    assert (facts["status"], facts["key"], facts["result"]) == ("succeeded", "ann", "[1, 2]")
    (line,) = await cli.lines(runs.list_(key="ann"))
    assert line.split("\t")[:5] == [run_id, "Done", "ann", "echo", "main"]
    assert await cli.lines(runs.list_(key="bob")) == []
    assert len(await cli.lines(watch.events(run_id))) == 3
    assert len(await cli.lines(watch.events(run_id, follow=True))) == 3


async def test_json_output_is_one_object_per_line(cli: CommandRunner) -> None:
    (run,) = await cli.json(runs.submit("echo", "said=hello", json=True))
    *events, ended = await cli.json(watch.watch(run["id"], json=True))
    assert [event["state"] for event in events] == ["Queued", "Running", "Done"]
    assert (ended["id"], ended["result"]) == (run["id"], "hello")
    assert (await cli.json(runs.get(run["id"], json=True))) == [ended]
    listed = {name: value for name, value in ended.items() if name != "traceback"}
    assert (await cli.json(runs.list_(json=True))) == [listed]
    (explanation,) = await cli.json(runs.explain(run["id"], json=True))
    assert (explanation["run_id"], explanation["gate"]) == (run["id"], "ended")
    assert len(await cli.json(lanes.list_(json=True))) >= 2


async def test_watch_exits_with_1_if_the_run_does_not_succeed(cli: CommandRunner) -> None:
    (run_id,) = await cli.lines(runs.submit("stay", key="ann"))
    await cli.client.wait_until_running(run_id)
    (answer,) = await cli.lines(runs.cancel(run_id, reason="enough"))
    assert answer == "requested"
    assert await watch.watch(run_id) == 1
    with pytest.raises(ApiError, match=f"{run_id} has already ended: canceled"):
        await runs.cancel(run_id)
    assert await runs.submit("echo", watch=True) == 0


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize("as_json", [False, True])
async def test_watch_reports_what_the_run_waits_for(
    cli: CommandRunner,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    as_json: bool,
) -> None:
    monkeypatch.setattr(watch, "POLL_S", 0.01)
    await cli.lines(lanes.pause("main"))
    (run_id,) = await cli.lines(runs.submit("echo"))
    watching = asyncio.create_task(watch.watch(run_id, json=as_json))
    reported = ""
    async with asyncio.timeout(30):
        while not reported:
            await asyncio.sleep(0.01)
            reported = capsys.readouterr().err
    remedy = "Resume it with `headway lane resume main`."
    assert reported == f"queued: Lane 'main' is paused. {remedy}\n"
    await cli.client.call("PATCH", "/api/lanes/main", {"paused": False})
    assert await watching == 0


async def test_explanation_names_the_holders_once(cli: CommandRunner) -> None:
    (run_id,) = await cli.lines(runs.submit("stay", key="ann"))
    await cli.client.wait_until_running(run_id)
    names = [line.split("\t")[0] for line in (await cli.lines(runs.explain(run_id)))[1:]]
    assert "held by" in names
    assert "holder ids" not in names


@pytest.mark.proves("R1.1")
async def test_busy_key_and_missing_run_have_their_own_exit_codes(
    cli: CommandRunner,
) -> None:
    (run_id,) = await cli.lines(runs.submit("stay", key="ann"))
    with pytest.raises(ApiError, match="already has an active run") as busy:
        await runs.submit("stay", key="ann")
    assert (busy.value.extensions["active_run_id"], exit_code(busy.value)) == (
        run_id,
        EXIT_CONFLICT,
    )
    with pytest.raises(ApiError, match="there is no run 'none'") as missing:
        await runs.get("none")
    assert exit_code(missing.value) == EXIT_NOT_FOUND
    message = r"'esho' is not registered; registered jobs: echo, shout, [a-z, ]+$"
    with pytest.raises(ApiError, match=message) as unknown:
        await runs.submit("esho")
    assert exit_code(unknown.value) == EXIT_INVALID
    with pytest.raises(InvalidInput, match="must be name=value"):
        await runs.submit("echo", "hello")
    with pytest.raises(ApiError) as refused:
        await runs.submit("echo", "shout=true")
    assert exit_code(refused.value) == EXIT_INVALID


@pytest.mark.proves("R4.12")
async def test_message_is_sent_to_a_run(cli: CommandRunner) -> None:
    (run_id,) = await cli.lines(runs.submit("listen"))
    assert await cli.lines(runs.send(run_id, "go on", when_listening=True)) == ["accepted"]
    *_, outcome = await cli.lines(watch.watch(run_id))
    assert outcome.endswith(': ["go on"]')
    with pytest.raises(ApiError) as conflict:
        await runs.send(run_id, "still there?")
    assert exit_code(conflict.value) == EXIT_CONFLICT


@pytest.mark.proves("R4.11", "I26")
async def test_message_to_a_run_that_does_not_listen_is_refused_or_stored_as_unread(
    cli: CommandRunner,
) -> None:
    (run_id,) = await cli.lines(runs.submit("stay"))
    await cli.client.wait_until_running(run_id)
    with pytest.raises(ApiError, match=r"does not listen.*--when-listening") as refused:
        await runs.send(run_id, "hello")
    assert (exit_code(refused.value), refused.value.extensions["reason"]) == (
        EXIT_CONFLICT,
        "not_streaming",
    )
    assert await cli.lines(runs.send(run_id, "hello", when_listening=True)) == ["accepted"]
    await cli.lines(runs.cancel(run_id))
    lines = [line.split("\t")[1:] for line in await cli.lines(watch.watch(run_id))]
    assert ["run_messages_unread", "1 not read by the job: hello"] in lines
    facts = dict(line.split("\t") for line in await cli.lines(runs.get(run_id)))
    assert (facts["unread_count"], facts["unread_messages"]) == ("1", '["hello"]')
    (message,) = await cli.lines(runs.messages(run_id))
    assert message.split("\t")[2:] == ["unread", "hello"]


@pytest.mark.proves("R4.11")
async def test_message_to_an_unknown_run_is_not_found(cli: CommandRunner) -> None:
    del cli
    with pytest.raises(ApiError, match="there is no run 'none'") as missing:
        await runs.send("none", "hello")
    assert exit_code(missing.value) == EXIT_NOT_FOUND


@pytest.mark.proves("R4.13")
async def test_question_is_answered_without_its_id_if_it_is_the_only_open_one(
    cli: CommandRunner,
) -> None:
    (run_id,) = await cli.lines(runs.submit("ask"))
    await cli.client.wait_for_event(run_id, "permission_request")
    assert await cli.lines(runs.resume(run_id, "note=go", approve=True)) == ["answered"]
    *_, outcome = await cli.lines(watch.watch(run_id))
    assert '"approved": true' in outcome
    assert '"note": "go"' in outcome
    with pytest.raises(ApiError, match="has no open question") as stale:
        await runs.resume(run_id, approve=False)
    assert exit_code(stale.value) == EXIT_CONFLICT
    with pytest.raises(ApiError, match="there is no run"):
        await runs.resume("none", approve=False)
    with pytest.raises(InvalidInput, match="'yes' must be name=value, or use --approve or --deny"):
        await runs.resume(run_id, "yes")


@pytest.mark.proves("R7.10")
async def test_stopping_a_key_cancels_all_its_runs(cli: CommandRunner) -> None:
    (active,) = await cli.lines(runs.submit("stay", key="ann"))
    await cli.client.wait_until_running(active)
    (queued,) = await cli.lines(runs.submit("echo", key="ann", on_conflict=OnConflict.ENQUEUE))
    lines = await cli.lines(keys.stop("ann", reason="enough"))
    assert lines == [f"{queued}\tcanceled", f"{active}\trequested"]
    assert (await cli.client.wait_for_end(active))["cancel"]["reason"] == "enough"
    assert await cli.json(keys.stop("ann", json=True)) == []


@pytest.mark.proves("R1.2")
async def test_lanes_are_set_paused_resumed_and_cleared(cli: CommandRunner) -> None:
    (line,) = await cli.lines(lanes.set_("narrow", max_concurrent=1, max_queued=5))
    assert line.split("\t") == ["narrow", "0", "1", "0", "0", "5", ""]
    assert (await cli.lines(lanes.pause("narrow")))[0].endswith("\tpaused")
    for _ in range(2):
        await runs.submit("stay", lane="narrow")
    await cli.lines(asyncio.sleep(0))
    listed = [line.split("\t") for line in await cli.lines(lanes.list_())]
    assert ["narrow", "0", "1", "0", "2", "5", "paused"] in listed
    assert await cli.lines(lanes.clear("narrow")) == ["2 runs canceled"]
    assert (await cli.json(lanes.resume("narrow", json=True)))[0]["paused"] is False
    with pytest.raises(InvalidInput, match="--max-concurrent"):
        await lanes.set_("narrow")


@pytest.mark.proves("R1.7")
async def test_key_rows_are_saved_listed_and_removed(cli: CommandRunner) -> None:
    await cli.lines(keys.set_("user/42", "echo", "said=hi"))
    assert await cli.lines(keys.list_()) == ['user/42\techo\t{"said": "hi"}']
    (run_id,) = await cli.lines(runs.submit("echo", key="user/42"))
    *_, outcome = await cli.lines(watch.watch(run_id))
    assert outcome.endswith(": hi")
    assert await cli.lines(keys.rm("user/42")) == ["removed"]
    with pytest.raises(ApiError) as missing:
        await keys.rm("user/42")
    assert exit_code(missing.value) == EXIT_NOT_FOUND


async def test_schedules_are_listed_and_run_now(cli: CommandRunner) -> None:
    (line,) = await cli.lines(schedules.list_())
    assert line.split("\t")[:5] == ["yearly", "0 0 1 1 *", "UTC", "echo", "yearly"]
    (run_id,) = await cli.lines(schedules.run("yearly"))
    *_, outcome = await cli.lines(watch.watch(run_id))
    assert outcome.endswith(": happy new year")


async def test_schedule_is_paused_and_resumed(cli: CommandRunner) -> None:
    (paused,) = await cli.lines(schedules.pause("yearly"))
    assert paused.split("\t")[-1] == "paused"
    assert await cli.lines(schedules.list_()) == [paused]
    (resumed,) = await cli.json(schedules.resume("yearly", json=True))
    assert resumed["paused"] is False
    with pytest.raises(ApiError, match="there is no schedule 'never'") as missing:
        await schedules.pause("never")
    assert exit_code(missing.value) == EXIT_NOT_FOUND


@pytest.mark.proves("I19")
async def test_prune_removes_ended_runs_and_dry_run_reports_them(
    cli: CommandRunner, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", url)
    (run_id,) = await cli.lines(runs.submit("echo", key="ann"))
    await cli.lines(watch.watch(run_id))
    summary, database_line = await cli.lines(
        database.prune(runs_days=0, events_days=0, dry_run=True)
    )
    assert summary.startswith("would remove: 1 runs, ")
    assert database_line.startswith("database: sqlite:///")
    assert len(await cli.lines(runs.list_())) == 1
    (removed,) = await cli.json(database.prune(runs_days=0, json=True))
    assert (removed["run_count"], removed["event_count"]) == (1, 0)
    assert await cli.lines(runs.list_()) == []


@pytest.mark.proves("S4")
async def test_control_characters_are_escaped_in_lists(cli: CommandRunner) -> None:
    await cli.lines(runs.submit("echo", key="ann\x1b[2Jbob"))
    (line,) = await cli.lines(runs.list_())
    assert line.split("\t")[2] == r"ann\x1b[2Jbob"


@pytest.mark.proves("R5.13")
async def test_flows_and_tasks_are_published_started_signalled_and_shown(
    cli: CommandRunner, tmp_path: Path
) -> None:
    ask = {"kind": "approval", "params": {"approval_key": "$shared.ok"}}
    (tmp_path / "ask.json").write_text(json.dumps({"start": "ask", "nodes": {"ask": ask}}))
    assert await cli.lines(flows.push("asks", tmp_path / "ask.json")) == ["asks version 1"]
    again = await cli.lines(flows.push("asks", tmp_path / "ask.json"))
    assert again == ["asks version 1 (unchanged)"]
    (listed,) = await cli.lines(flows.list_())
    assert listed.split("\t")[:2] == ["asks", "1"]
    assert json.loads("".join(await cli.lines(flows.show("asks"))))["start"] == "ask"
    assert (await cli.lines(flows.graph("asks")))[0].startswith("flowchart")
    (task_id,) = await cli.lines(flows.start("asks", params='{"n": 1}', key="ann"))
    assert await cli.lines(tasks.signal(task_id, "more", "[1]")) == ["accepted"]
    await wait_until_parked(cli.client.hw, task_id)
    (shown,) = await cli.json(tasks.get(task_id, json=True))
    assert (shown["params"], shown["shared"]["more"]) == ({"n": 1}, [1])
    (line,) = await cli.lines(tasks.list_(flow="asks"))
    assert line.split("\t")[:5] == [task_id, "asks v1", "running", "ask", "approval"]
    assert await cli.lines(tasks.approve(task_id, "no")) == ["answered"]
    *rows, end = await cli.lines(tasks.watch(task_id))
    assert rows[-1] == "   1  ask  ok -> rejected  false"
    assert end == f"{task_id}  asks v1  succeeded at ask"
    with pytest.raises(ApiError) as refused:
        await tasks.approve(task_id)
    assert exit_code(refused.value) == EXIT_CONFLICT
    (other,) = await cli.lines(tasks.rerun(task_id, "ask"))  # The rerun keeps the stored answer.
    assert (await cli.lines(tasks.watch(other)))[-1] == f"{other}  asks v1  succeeded at ask"
    with pytest.raises(ApiError, match=f"{other} has already ended: succeeded") as conflict:
        await tasks.cancel(other)
    assert exit_code(conflict.value) == EXIT_CONFLICT
    invalid = tmp_path / "bad.json"
    invalid.write_text('{"start": "z", "nodes": {"a": {"kind": "magic"}}}')
    with pytest.raises(
        ApiError, match=r"start: there is no node .*; nodes\.a\.kind must be"
    ) as refused:
        await flows.push("asks", invalid)
    assert exit_code(refused.value) == EXIT_INVALID


@pytest.mark.proves("R5.13")
@pytest.mark.parametrize("command", [tasks.get, tasks.watch, tasks.approve, tasks.cancel])
async def test_missing_task_is_named(
    cli: CommandRunner, command: Callable[[str], Awaitable[object]]
) -> None:
    with pytest.raises(ApiError, match="there is no task 'none'") as missing:
        await command("none")
    assert exit_code(missing.value) == EXIT_NOT_FOUND


@pytest.mark.proves("R5.13")
async def test_watch_reports_each_approval_of_the_same_node(
    cli: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "POLL_S", 0.01)
    printed: asyncio.Queue[Any] = asyncio.Queue()
    monkeypatch.setattr(tasks, "print_json", printed.put_nowait)
    ask = {"kind": "approval", "params": {"approval_key": "$shared.ok", "consume": True}}
    loop = {"from": "ask", "to": "ask", "action": "approved"}
    await cli.client.hw.flows.publish(
        "asks", {"start": "ask", "nodes": {"ask": ask}, "edges": [loop]}
    )
    run = await cli.client.hw.flows.start("asks")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        watching = group.create_task(tasks.watch(run.id, json=True))
        for answer in (True, True, False):
            while "waits_for" not in (row := await printed.get()):
                assert row["node"] == "ask"  # A node run that ended in the meantime.
            assert (row["id"], row["waits_for"]) == (run.id, "approval")
            await cli.client.hw.flows.approve(run.id, answer)
    assert watching.result() == 0


@pytest.mark.proves("I15")
async def test_missing_lane_is_named_and_not_created(cli: CommandRunner) -> None:
    await lanes.set_("typo", max_concurrent=3)
    before = await cli.lines(lanes.list_())
    for command in (lanes.pause, lanes.resume, lanes.clear):
        with pytest.raises(
            ApiError, match="there is no lane 'tpyo'; existing lanes: typo, "
        ) as missing:
            await command("tpyo")
        assert (missing.value.code, exit_code(missing.value)) == ("lane_not_found", EXIT_NOT_FOUND)
    assert await cli.lines(lanes.list_()) == before[1:]  # The first line was printed by `set`.
