"""`/events.js`: the snapshot, then every event once and in order, whatever the line does (I14)."""

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

# Whoever is asked to be patient for 45 s says so; a line to stdin says that they are over.
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
const told = [];
const tell = (...words) => {
  told.push(words);
  console.error(words.join(" "));
};
const following = follow({
  base,
  filter: JSON.parse(filter),
  onSnapshot: (state) => tell("snapshot", state.seq),
  onEvent: (event) => {
    tell("event", event.seq);
    if (event.seq === Number(poison)) throw new Error("it was too much");
    if (event.seq >= Number(upto)) following.stop();
  },
  onLive: (isLive, problem) => {
    if (isLive) console.error("live");
    else if (problem?.status) tell("refused", problem.status);
  },
  onFault: (fault) => tell("fault", fault.message),
});
await following.done;
console.log(JSON.stringify(told));
process.stdin.destroy();
"""
SCRIPT = Path(__file__).parents[2] / "src/headway/api/static/events.js"


async def started(
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


async def says(process: asyncio.subprocess.Process, word: str, *, count: int = 1) -> None:
    """Wait until it has, so often."""
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while count and (line := await process.stderr.readline()):
            count -= line.decode().strip() == word
    assert count == 0


def hush(process: asyncio.subprocess.Process) -> None:
    """What its clocks would do if it heard nothing for 45 s."""
    assert process.stdin is not None
    process.stdin.write(b"\n")


async def told_by(process: asyncio.subprocess.Process) -> list[Any]:
    try:
        async with asyncio.timeout(30):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    told: list[Any] = json.loads(out)
    return told


async def told_of(folder: Path, script: Script, **wanted: Any) -> list[Any]:
    async with scripted(script) as address:
        return await told_by(await started(folder, address, **wanted))


def snapshot(seq: int) -> list[Any]:
    return ["snapshot", seq]


def events(*seqs: int) -> Sequence[list[Any]]:
    return [["event", seq] for seq in seqs]


@pytest.mark.proves("I14")
async def test_it_takes_the_snapshot_and_every_event_after_it(
    client: Client, tmp_path: Path
) -> None:
    await client.ended(await client.submitted("echo"))
    assert (await client.get("/events.js")).body == SCRIPT.read_text()
    process = await started(tmp_path, client.address, upto=9)
    await says(process, "live")
    for _ in range(2):
        await client.ended(await client.submitted("echo"))
    assert await told_by(process) == [snapshot(3), *events(*range(4, 10))]


@pytest.mark.proves("I14")
async def test_after_a_cut_it_goes_on_where_it_was_and_drops_what_it_knows(
    tmp_path: Path,
) -> None:
    script = Script([3], [[event(4), event(5)], [event(5), event(4), event(6)]])
    assert await told_of(tmp_path, script, upto=6) == [snapshot(3), *events(4, 5, 6)]
    assert script.asked == ["state", "3", "5"]


@pytest.mark.proves("I14")
async def test_it_takes_the_snapshot_when_events_are_missing(tmp_path: Path) -> None:
    script = Script([3, 7, 9], [[event(4), event(6)], [event(9, "resync")], [event(10)]])
    told = await told_of(tmp_path, script, upto=10)
    assert told == [snapshot(3), *events(4), snapshot(7), snapshot(9), *events(10)]
    assert script.asked == ["state", "3", "state", "7", "state", "9"]


@pytest.mark.proves("I14")
async def test_a_filtered_stream_may_skip_and_moves_on_without_a_word(tmp_path: Path) -> None:
    script = Script([3], [[event(5), ": ping\nid: 8\n\n"], [event(11)]])
    told = await told_of(tmp_path, script, upto=11, filter_={"key": "ann"})
    assert told == [snapshot(3), *events(5, 11)]
    assert script.asked == ["state", "3", "8"]


@pytest.mark.proves("R4.14")
async def test_a_line_that_is_silent_is_left(tmp_path: Path) -> None:
    script = Script([3], [[event(4), HANG], [event(5)]])
    async with scripted(script) as address:
        process = await started(tmp_path, address, upto=5)
        await says(process, "event 4")
        hush(process)
        assert await told_by(process) == [snapshot(3), *events(4, 5)]
    assert script.asked == ["state", "3", "4"]


@pytest.mark.proves("R4.14")
async def test_a_snapshot_that_does_not_come_is_asked_for_again(tmp_path: Path) -> None:
    script = Script([HANG, 3], [[event(4)]])
    async with scripted(script) as address:
        process = await started(tmp_path, address, upto=4)
        async with asyncio.timeout(30):
            await script.silent.wait()
        hush(process)
        assert await told_by(process) == [snapshot(3), *events(4)]
    assert script.asked == ["state", "state", "3"]


@pytest.mark.proves("R4.14")
async def test_each_part_of_a_great_snapshot_has_a_patience_of_its_own(
    tmp_path: Path,
) -> None:
    may_end = asyncio.Event()
    async with scripted(Script([3], [[event(4)]], may_end=may_end)) as address:
        process = await started(tmp_path, address, upto=4)
        await says(process, "patience", count=3)  # For an answer, its first part, and the next.
        may_end.set()
        assert await told_by(process) == [snapshot(3), *events(4)]


@pytest.mark.proves("I14")
async def test_it_resumes_with_the_epoch_of_its_snapshot_as_far_as_it_is_told(
    tmp_path: Path,
) -> None:
    """By a server of another version it is not."""
    for has_epoch, told in ((True, "7"), (False, "")):
        script = Script([3], [[event(4)], [event(5)]], has_epoch=has_epoch)
        assert await told_of(tmp_path, script, upto=5) == [snapshot(3), *events(4, 5)]
        assert script.epochs == [told, told]


@pytest.mark.proves("I14")
async def test_module_resumes_with_the_whole_id_of_the_last_event(tmp_path: Path) -> None:
    """By its mark the server detects whether a backup was restored since."""
    marked = event(4).replace("id: 4", "id: 4-64752ea0c1b07")
    script = Script([3], [[marked], [event(5)]])
    assert await told_of(tmp_path, script, upto=5) == [snapshot(3), *events(4, 5)]
    assert script.asked == ["state", "3", "4-64752ea0c1b07"]


@pytest.mark.proves("I14")
async def test_what_a_handler_throws_is_told_and_the_snapshot_follows(tmp_path: Path) -> None:
    script = Script([3, 6], [[event(4), event(5), event(6)], [event(7)]])
    told = await told_of(tmp_path, script, upto=7, poison=5)
    assert told == [
        snapshot(3), *events(4, 5), ["fault", "it was too much"], snapshot(6), *events(7),
    ]  # fmt: skip


@pytest.mark.proves("S1")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_token_that_is_refused_is_told_and_not_tried_again(
    tmp_path: Path, status: int
) -> None:
    script = Script([], [], status=status)
    assert await told_of(tmp_path, script, upto=1) == [["refused", status]]
    assert script.asked == ["state"]


@pytest.mark.proves("S1")
async def test_a_real_server_refuses_who_has_no_token(url: str, tmp_path: Path) -> None:
    access = Access((Token("t0ken-of-sixteen", Scope.READ),))
    async with served(url, access=access) as client:
        assert await told_by(await started(tmp_path, client.address, upto=1)) == [["refused", 401]]
