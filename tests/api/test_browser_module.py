"""`/events.js`: the snapshot, then every event once and in order, through disconnects (I14)."""

import asyncio
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headway.api.http.access import Access, Scope, Token
from tests.api.client import Client
from tests.api.conftest import served
from tests.api.scripted import HANG, Script, event, scripted

pytestmark = pytest.mark.backend("sqlite")

# Each timer of 45 s is reported on stderr as "patience"; a line on stdin expires them.
FOLLOW = """
const [script, base, upto, filter, poison] = process.argv.slice(2);
const { setTimeout: begin, clearTimeout: end } = globalThis;
const patient = new Map();
globalThis.setTimeout = (then, ms, ...more) => {
  const timer = begin(then, ms, ...more);
  if (ms === 45_000) {
    patient.set(timer, then);
    console.error("patience");
  }
  return timer;
};
globalThis.clearTimeout = (timer) => {
  patient.delete(timer);
  end(timer);
};
process.stdin.on("data", () => patient.forEach((then) => then()));
const { follow } = await import(script);
const output = [];
const report = (...values) => {
  output.push(values);
  console.error(values.join(" "));
};
const following = follow({
  base,
  filter: JSON.parse(filter),
  onSnapshot: (state) => report("snapshot", state.seq),
  onEvent: (event) => {
    report("event", event.seq);
    if (event.seq === Number(poison)) throw new Error("it was too much");
    if (event.seq >= Number(upto)) following.stop();
  },
  onLive: (isLive, problem) => {
    if (isLive) console.error("live");
    else if (problem?.status) report("refused", problem.status);
  },
  onFault: (fault) => report("fault", fault.message),
});
await following.done;
console.log(JSON.stringify(output));
process.stdin.destroy();
"""
SCRIPT = Path(__file__).parents[2] / "src/headway/api/static/events.js"


async def start_module(
    folder: Path,
    address: str,
    *,
    upto: int,
    filter_: dict[str, str] | None = None,
    poison: int = 0,
) -> asyncio.subprocess.Process:
    (folder / "follow.mjs").write_text(FOLLOW)
    script = folder / "events.mjs"
    script.write_text(SCRIPT.read_text())
    return await asyncio.create_subprocess_exec(
        "node",
        str(folder / "follow.mjs"),
        str(script),
        address,
        str(upto),
        json.dumps(filter_ or {}),
        str(poison),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def wait_for_line(process: asyncio.subprocess.Process, text: str, *, count: int = 1) -> None:
    """Wait until the module has written this line `count` times."""
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while count and (line := await process.stderr.readline()):
            count -= line.decode().strip() == text
    assert count == 0


def expire_timers(process: asyncio.subprocess.Process) -> None:
    """Expire the timers of the module, as if it had received nothing for 45 s."""
    assert process.stdin is not None
    process.stdin.write(b"\n")


async def collect_output(process: asyncio.subprocess.Process) -> list[Any]:
    try:
        async with asyncio.timeout(30):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    output: list[Any] = json.loads(out)
    return output


async def follow_script(folder: Path, script: Script, **options: Any) -> list[Any]:
    async with scripted(script) as address:
        return await collect_output(await start_module(folder, address, **options))


def snapshot(seq: int) -> list[Any]:
    return ["snapshot", seq]


def events(*seqs: int) -> Sequence[list[Any]]:
    return [["event", seq] for seq in seqs]


@pytest.mark.proves("I14")
async def test_module_reads_the_snapshot_and_every_event_after_it(
    client: Client, tmp_path: Path
) -> None:
    await client.wait_for_end(await client.submit("echo"))
    assert (await client.get("/events.js")).body == SCRIPT.read_text()
    process = await start_module(tmp_path, client.address, upto=9)
    await wait_for_line(process, "live")
    for _ in range(2):
        await client.wait_for_end(await client.submit("echo"))
    assert await collect_output(process) == [snapshot(3), *events(*range(4, 10))]


@pytest.mark.proves("I14")
async def test_module_resumes_after_a_disconnect_and_drops_duplicate_events(
    tmp_path: Path,
) -> None:
    script = Script([3], [[event(4), event(5)], [event(5), event(4), event(6)]])
    assert await follow_script(tmp_path, script, upto=6) == [snapshot(3), *events(4, 5, 6)]
    assert script.requests == ["state", "3", "5"]


@pytest.mark.proves("I14")
async def test_module_reads_the_snapshot_again_when_events_are_missing(tmp_path: Path) -> None:
    script = Script([3, 7, 9], [[event(4), event(6)], [event(9, "resync")], [event(10)]])
    output = await follow_script(tmp_path, script, upto=10)
    assert output == [snapshot(3), *events(4), snapshot(7), snapshot(9), *events(10)]
    assert script.requests == ["state", "3", "state", "7", "state", "9"]


@pytest.mark.proves("I14")
async def test_filtered_stream_may_skip_event_numbers_and_resumes_after_the_last_ping(
    tmp_path: Path,
) -> None:
    script = Script([3], [[event(5), ": ping\nid: 8\n\n"], [event(11)]])
    output = await follow_script(tmp_path, script, upto=11, filter_={"key": "ann"})
    assert output == [snapshot(3), *events(5, 11)]
    assert script.requests == ["state", "3", "8"]


@pytest.mark.proves("R4.14")
async def test_module_reconnects_when_the_stream_is_silent(tmp_path: Path) -> None:
    script = Script([3], [[event(4), HANG], [event(5)]])
    async with scripted(script) as address:
        process = await start_module(tmp_path, address, upto=5)
        await wait_for_line(process, "event 4")
        expire_timers(process)
        assert await collect_output(process) == [snapshot(3), *events(4, 5)]
    assert script.requests == ["state", "3", "4"]


@pytest.mark.proves("R4.14")
async def test_module_requests_the_snapshot_again_after_a_timeout(tmp_path: Path) -> None:
    script = Script([HANG, 3], [[event(4)]])
    async with scripted(script) as address:
        process = await start_module(tmp_path, address, upto=4)
        async with asyncio.timeout(30):
            await script.silent.wait()
        expire_timers(process)
        assert await collect_output(process) == [snapshot(3), *events(4)]
    assert script.requests == ["state", "state", "3"]


@pytest.mark.proves("R4.14")
async def test_each_part_of_a_large_snapshot_has_its_own_timeout(
    tmp_path: Path,
) -> None:
    may_end = asyncio.Event()
    async with scripted(Script([3], [[event(4)]], may_end=may_end)) as address:
        process = await start_module(tmp_path, address, upto=4)
        await wait_for_line(
            process, "patience", count=3
        )  # One for the answer, one for its first part, one for the next.
        may_end.set()
        assert await collect_output(process) == [snapshot(3), *events(4)]


@pytest.mark.proves("I14")
async def test_module_resumes_with_the_epoch_of_its_snapshot_if_it_has_one(
    tmp_path: Path,
) -> None:
    """A server of another version may send no epoch."""
    for has_epoch, output in ((True, "7"), (False, "")):
        script = Script([3], [[event(4)], [event(5)]], has_epoch=has_epoch)
        assert await follow_script(tmp_path, script, upto=5) == [snapshot(3), *events(4, 5)]
        assert script.epochs == [output, output]


@pytest.mark.proves("I14")
async def test_module_resumes_with_the_whole_id_of_the_last_event(tmp_path: Path) -> None:
    """The server compares the mark in the id to detect that a backup was restored."""
    marked = event(4).replace("id: 4", "id: 4-64752ea0c1b07")
    script = Script([3], [[marked], [event(5)]])
    assert await follow_script(tmp_path, script, upto=5) == [snapshot(3), *events(4, 5)]
    assert script.requests == ["state", "3", "4-64752ea0c1b07"]


@pytest.mark.proves("I14")
async def test_error_of_a_handler_is_reported_and_the_snapshot_is_read_again(
    tmp_path: Path,
) -> None:
    script = Script([3, 6], [[event(4), event(5), event(6)], [event(7)]])
    output = await follow_script(tmp_path, script, upto=7, poison=5)
    assert output == [
        snapshot(3), *events(4, 5), ["fault", "it was too much"], snapshot(6), *events(7),
    ]  # fmt: skip


@pytest.mark.proves("S1")
@pytest.mark.parametrize("status", [401, 403])
async def test_refused_token_is_reported_and_not_retried(tmp_path: Path, status: int) -> None:
    script = Script([], [], status=status)
    assert await follow_script(tmp_path, script, upto=1) == [["refused", status]]
    assert script.requests == ["state"]


@pytest.mark.proves("S1")
async def test_real_server_refuses_a_module_without_a_token(url: str, tmp_path: Path) -> None:
    access = Access((Token("t0ken-of-sixteen", Scope.READ),))
    async with served(url, access=access) as client:
        assert await collect_output(await start_module(tmp_path, client.address, upto=1)) == [
            ["refused", 401]
        ]
