"""Every command says the same whether a server or the database is asked."""

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
from tests.cli.reached import Said
from tests.engine.flow.scenes import parked

pytestmark = pytest.mark.backend("sqlite")


def exit_code(error: Exception) -> int:
    with pytest.raises(SystemExit) as ended:
        exit_with_error(error, ())
    return int(str(ended.value.code))


@pytest.mark.proves("R1.11")
async def test_a_run_is_submitted_watched_and_shown(said: Said) -> None:
    (run_id,) = await said.lines(runs.submit("echo", "said=[1, 2]", key="ann"))
    *events, outcome = await said.lines(watch.watch(run_id))
    kinds = [line.split("\t")[1:] for line in events]
    assert kinds == [["run_state_changed", word] for word in ("Queued", "Running", "Done")]
    assert outcome.startswith("succeeded after ")
    assert outcome.endswith(": [1, 2]")
    facts = dict(line.split("\t") for line in await said.lines(runs.get(run_id)))
    assert (facts["status"], facts["key"], facts["result"]) == ("succeeded", "ann", "[1, 2]")
    (line,) = await said.lines(runs.list_(key="ann"))
    assert line.split("\t")[:5] == [run_id, "Done", "ann", "echo", "main"]
    assert await said.lines(runs.list_(key="bob")) == []
    assert len(await said.lines(watch.events(run_id))) == 3
    assert len(await said.lines(watch.events(run_id, follow=True))) == 3


async def test_with_json_every_line_is_an_object(said: Said) -> None:
    (run,) = await said.json(runs.submit("echo", "said=hello", json=True))
    *events, ended = await said.json(watch.watch(run["id"], json=True))
    assert [event["state"] for event in events] == ["Queued", "Running", "Done"]
    assert (ended["id"], ended["result"]) == (run["id"], "hello")
    assert (await said.json(runs.get(run["id"], json=True))) == [ended]
    listed = {name: value for name, value in ended.items() if name != "traceback"}
    assert (await said.json(runs.list_(json=True))) == [listed]
    (told,) = await said.json(runs.explain(run["id"], json=True))
    assert (told["run_id"], told["gate"]) == (run["id"], "ended")
    assert len(await said.json(lanes.list_(json=True))) >= 2


async def test_watch_ends_with_1_when_the_run_does_not_succeed(said: Said) -> None:
    (run_id,) = await said.lines(runs.submit("stay", key="ann"))
    await said.client.begun(run_id)
    (answer,) = await said.lines(runs.cancel(run_id, reason="enough"))
    assert answer == "requested"
    assert await watch.watch(run_id) == 1
    assert await runs.submit("echo", watch=True) == 0


@pytest.mark.proves("R1.1")
async def test_a_busy_key_and_a_run_that_is_not_there_have_codes_of_their_own(
    said: Said,
) -> None:
    (run_id,) = await said.lines(runs.submit("stay", key="ann"))
    with pytest.raises(ApiError, match="already has an active run") as busy:
        await runs.submit("stay", key="ann")
    assert (busy.value.extensions["active_run_id"], exit_code(busy.value)) == (
        run_id,
        EXIT_CONFLICT,
    )
    with pytest.raises(ApiError, match="there is no run 'none'") as missing:
        await runs.get("none")
    assert exit_code(missing.value) == EXIT_NOT_FOUND
    known = r"'esho' is not registered; registered are: echo, shout, [a-z, ]+$"
    with pytest.raises(ApiError, match=known) as unknown:
        await runs.submit("esho")
    assert exit_code(unknown.value) == EXIT_INVALID
    with pytest.raises(InvalidInput, match="must be name=value"):
        await runs.submit("echo", "hello")
    with pytest.raises(ApiError) as refused:
        await runs.submit("echo", "shout=true")
    assert exit_code(refused.value) == EXIT_INVALID


@pytest.mark.proves("R4.12")
async def test_a_run_is_sent_messages(said: Said) -> None:
    (run_id,) = await said.lines(runs.submit("listen"))
    assert await said.lines(runs.send(run_id, "go on", when_listening=True)) == ["accepted"]
    *_, outcome = await said.lines(watch.watch(run_id))
    assert outcome.endswith(': ["go on"]')
    with pytest.raises(ApiError) as over:
        await runs.send(run_id, "still there?")
    assert exit_code(over.value) == EXIT_CONFLICT


@pytest.mark.proves("R4.11", "I26")
async def test_a_message_for_a_run_that_does_not_listen_is_refused_or_kept_and_shown_as_unread(
    said: Said,
) -> None:
    (run_id,) = await said.lines(runs.submit("stay"))
    await said.client.begun(run_id)
    with pytest.raises(ApiError, match=r"does not listen.*--when-listening") as refused:
        await runs.send(run_id, "hello")
    assert (exit_code(refused.value), refused.value.extensions["reason"]) == (
        EXIT_CONFLICT,
        "not_streaming",
    )
    assert await said.lines(runs.send(run_id, "hello", when_listening=True)) == ["accepted"]
    await said.lines(runs.cancel(run_id))
    lines = [line.split("\t")[1:] for line in await said.lines(watch.watch(run_id))]
    assert ["run_messages_unread", "1 not read by the job: hello"] in lines
    facts = dict(line.split("\t") for line in await said.lines(runs.get(run_id)))
    assert (facts["unread_count"], facts["unread_messages"]) == ("1", '["hello"]')
    (message,) = await said.lines(runs.messages(run_id))
    assert message.split("\t")[2:] == ["unread", "hello"]


@pytest.mark.proves("R4.11")
async def test_a_message_for_an_unknown_run_is_not_found(said: Said) -> None:
    del said
    with pytest.raises(ApiError, match="there is no run 'none'") as missing:
        await runs.send("none", "hello")
    assert exit_code(missing.value) == EXIT_NOT_FOUND


@pytest.mark.proves("R4.13")
async def test_a_question_is_answered_without_its_id_when_it_is_the_only_one(
    said: Said,
) -> None:
    (run_id,) = await said.lines(runs.submit("ask"))
    await said.client.told(run_id, "permission_request")
    assert await said.lines(runs.resume(run_id, "note=go", approve=True)) == ["answered"]
    *_, outcome = await said.lines(watch.watch(run_id))
    assert '"approved": true' in outcome
    assert '"note": "go"' in outcome
    with pytest.raises(ApiError, match="asks nothing") as stale:
        await runs.resume(run_id, approve=False)
    assert exit_code(stale.value) == EXIT_CONFLICT
    with pytest.raises(ApiError, match="there is no run"):
        await runs.resume("none", approve=False)


@pytest.mark.proves("R7.10")
async def test_a_key_is_stopped_with_all_its_runs(said: Said) -> None:
    (active,) = await said.lines(runs.submit("stay", key="ann"))
    await said.client.begun(active)
    (queued,) = await said.lines(runs.submit("echo", key="ann", on_conflict="enqueue"))
    lines = await said.lines(keys.stop("ann", reason="enough"))
    assert lines == [f"{queued}\tcanceled", f"{active}\trequested"]
    assert (await said.client.ended(active))["cancel"]["reason"] == "enough"
    assert await said.json(keys.stop("ann", json=True)) == []


@pytest.mark.proves("R1.2")
async def test_lanes_are_set_paused_resumed_and_cleared(said: Said) -> None:
    (line,) = await said.lines(lanes.set_("narrow", max_concurrent=1, max_queued=5))
    assert line.split("\t") == ["narrow", "0", "1", "0", "0", "5", ""]
    assert (await said.lines(lanes.pause("narrow")))[0].endswith("\tpaused")
    for _ in range(2):
        await runs.submit("stay", lane="narrow")
    await said.lines(asyncio.sleep(0))
    listed = [line.split("\t") for line in await said.lines(lanes.list_())]
    assert ["narrow", "0", "1", "0", "2", "5", "paused"] in listed
    assert await said.lines(lanes.clear("narrow")) == ["2 runs canceled"]
    assert (await said.json(lanes.resume("narrow", json=True)))[0]["paused"] is False
    with pytest.raises(InvalidInput, match="--max-concurrent"):
        await lanes.set_("narrow")


@pytest.mark.proves("R1.7")
async def test_rows_are_saved_listed_and_removed(said: Said) -> None:
    await said.lines(keys.set_("user/42", "echo", "said=hi"))
    assert await said.lines(keys.list_()) == ['user/42\techo\t{"said": "hi"}']
    (run_id,) = await said.lines(runs.submit("echo", key="user/42"))
    *_, outcome = await said.lines(watch.watch(run_id))
    assert outcome.endswith(": hi")
    assert await said.lines(keys.rm("user/42")) == ["removed"]
    with pytest.raises(ApiError) as missing:
        await keys.rm("user/42")
    assert exit_code(missing.value) == EXIT_NOT_FOUND


async def test_schedules_are_listed_and_run_now(said: Said) -> None:
    (line,) = await said.lines(schedules.list_())
    assert line.split("\t")[:5] == ["yearly", "0 0 1 1 *", "UTC", "echo", "yearly"]
    (run_id,) = await said.lines(schedules.run("yearly"))
    *_, outcome = await said.lines(watch.watch(run_id))
    assert outcome.endswith(": happy new year")


async def test_a_schedule_is_paused_and_resumed(said: Said) -> None:
    (paused,) = await said.lines(schedules.pause("yearly"))
    assert paused.split("\t")[-1] == "paused"
    assert await said.lines(schedules.list_()) == [paused]
    (resumed,) = await said.json(schedules.resume("yearly", json=True))
    assert resumed["paused"] is False
    with pytest.raises(ApiError, match="there is no schedule 'never'") as missing:
        await schedules.pause("never")
    assert exit_code(missing.value) == EXIT_NOT_FOUND


@pytest.mark.proves("I19")
async def test_what_is_over_is_removed_by_hand_and_told_before(
    said: Said, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", url)
    (run_id,) = await said.lines(runs.submit("echo", key="ann"))
    await said.lines(watch.watch(run_id))
    told, where = await said.lines(database.prune(runs_days=0, events_days=0, dry_run=True))
    assert told.startswith("would remove: 1 runs, ")
    assert where.startswith("database: sqlite:///")
    assert len(await said.lines(runs.list_())) == 1
    (removed,) = await said.json(database.prune(runs_days=0, json=True))
    assert (removed["run_count"], removed["event_count"]) == (1, 0)
    assert await said.lines(runs.list_()) == []


@pytest.mark.proves("S4")
async def test_what_others_have_said_cannot_move_the_cursor(said: Said) -> None:
    await said.lines(runs.submit("echo", key="ann\x1b[2Jbob"))
    (line,) = await said.lines(runs.list_())
    assert line.split("\t")[2] == r"ann\x1b[2Jbob"


@pytest.mark.proves("R5.13")
async def test_flows_and_tasks_are_published_started_steered_and_shown(
    said: Said, tmp_path: Path
) -> None:
    ask = {"kind": "approval", "params": {"approval_key": "$shared.ok"}}
    (tmp_path / "ask.json").write_text(json.dumps({"start": "ask", "nodes": {"ask": ask}}))
    assert await said.lines(flows.push("asks", tmp_path / "ask.json")) == ["asks version 1"]
    again = await said.lines(flows.push("asks", tmp_path / "ask.json"))
    assert again == ["asks version 1 (as it was)"]
    (listed,) = await said.lines(flows.list_())
    assert listed.split("\t")[:2] == ["asks", "1"]
    assert json.loads("".join(await said.lines(flows.show("asks"))))["start"] == "ask"
    assert (await said.lines(flows.graph("asks")))[0].startswith("flowchart")
    (task_id,) = await said.lines(flows.start("asks", params='{"n": 1}', key="ann"))
    assert await said.lines(tasks.signal(task_id, "more", "[1]")) == ["accepted"]
    await parked(said.client.hw, task_id)
    (shown,) = await said.json(tasks.get(task_id, json=True))
    assert (shown["params"], shown["shared"]["more"]) == ({"n": 1}, [1])
    (line,) = await said.lines(tasks.list_(flow="asks"))
    assert line.split("\t")[:5] == [task_id, "asks v1", "running", "ask", "approval"]
    assert await said.lines(tasks.approve(task_id, "no")) == ["answered"]
    *rows, end = await said.lines(tasks.watch(task_id))
    assert rows[-1] == "   1  ask  ok -> rejected  false"
    assert end == f"{task_id}  asks v1  succeeded at ask"
    with pytest.raises(ApiError) as refused:
        await tasks.approve(task_id)
    assert exit_code(refused.value) == EXIT_CONFLICT
    (other,) = await said.lines(tasks.rerun(task_id, "ask"))  # It takes the answer along.
    assert (await said.lines(tasks.watch(other)))[-1] == f"{other}  asks v1  succeeded at ask"
    with pytest.raises(ApiError, match="is over") as over:
        await tasks.cancel(other)
    assert exit_code(over.value) == EXIT_CONFLICT
    faulty = tmp_path / "bad.json"
    faulty.write_text('{"start": "z", "nodes": {"a": {"kind": "magic"}}}')
    with pytest.raises(
        ApiError, match=r"nodes\.a\.kind: .*start: |start: .*nodes\.a\.kind: "
    ) as wrong:
        await flows.push("asks", faulty)
    assert exit_code(wrong.value) == EXIT_INVALID


@pytest.mark.proves("R5.13")
@pytest.mark.parametrize("command", [tasks.get, tasks.watch, tasks.approve, tasks.cancel])
async def test_a_task_that_is_not_there_is_named_as_one(
    said: Said, command: Callable[[str], Awaitable[object]]
) -> None:
    with pytest.raises(ApiError, match="there is no task 'none'") as missing:
        await command("none")
    assert exit_code(missing.value) == EXIT_NOT_FOUND


@pytest.mark.proves("R5.13")
async def test_a_task_that_asks_again_at_the_same_node_is_told_again(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "POLL_S", 0.01)
    told: asyncio.Queue[Any] = asyncio.Queue()
    monkeypatch.setattr(tasks, "print_json", told.put_nowait)
    ask = {"kind": "approval", "params": {"approval_key": "$shared.ok", "consume": True}}
    again = {"from": "ask", "to": "ask", "action": "approved"}
    await said.client.hw.flows.publish(
        "asks", {"start": "ask", "nodes": {"ask": ask}, "edges": [again]}
    )
    run = await said.client.hw.flows.start("asks")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        watching = group.create_task(tasks.watch(run.id, json=True))
        for answer in (True, True, False):
            while "waits_for" not in (one := await told.get()):
                assert one["node"] == "ask"  # What it has done meanwhile.
            assert (one["id"], one["waits_for"]) == (run.id, "approval")
            await said.client.hw.flows.approve(run.id, answer)
    assert watching.result() == 0


@pytest.mark.proves("I15")
async def test_a_lane_that_is_not_there_is_named_and_not_made(said: Said) -> None:
    await lanes.set_("typo", max_concurrent=3)
    there = await said.lines(lanes.list_())
    for command in (lanes.pause, lanes.resume, lanes.clear):
        with pytest.raises(ApiError, match="there is no lane 'tpyo'; there are: typo, ") as missing:
            await command("tpyo")
        assert (missing.value.code, exit_code(missing.value)) == ("lane_not_found", EXIT_NOT_FOUND)
    assert await said.lines(lanes.list_()) == there[1:]  # The first line was that of `set`.
