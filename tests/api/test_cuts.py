"""Cut anywhere, restarted, pruned: every event once and in order, or one resync (I13, I14)."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from tests.api.client import Client
from tests.api.conftest import served
from tests.api.cuts import cut

pytestmark = pytest.mark.backend("sqlite")

FOLLOW = """
import { writeFileSync } from "node:fs";
const [script, base, upto] = process.argv.slice(2);
const { follow } = await import(script);
const told = [];
const following = follow({
  base,
  onSnapshot: (state) => told.push(["snapshot", state.seq]),
  onEvent: (event) => {
    told.push(["event", event.seq]);
    if (event.seq >= Number(upto)) following.stop();
  },
  onLive: (isLive) => isLive && console.error("live"),
});
await following.done;
console.log(JSON.stringify(told));
"""
SCRIPT = Path(__file__).parents[2] / "src/headway/api/static/events.js"


async def test_i13_i14_fifty_cuts_restarts_and_retention_lose_and_repeat_nothing(url: str) -> None:
    seen = await cut(lambda: served(url), cut_count=50, seed=11)
    assert seen.faults == []
    assert (seen.cut_count, seen.event_count > 50, seen.resync_count > 0) == (50, True, True)


async def test_i14_the_browsers_module_takes_the_snapshot_and_every_event_after_it(
    client: Client, tmp_path: Path
) -> None:
    await client.ended(await client.submitted("echo"))
    (tmp_path / "follow.mjs").write_text(FOLLOW)
    script = tmp_path / "events.mjs"
    script.write_text((await client.get("/events.js")).body)
    assert script.read_text() == SCRIPT.read_text()
    process = await asyncio.create_subprocess_exec(
        "node",
        str(tmp_path / "follow.mjs"),
        str(script),
        client.address,
        "9",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    await process.stderr.readline()  # It is live.
    for _ in range(2):
        await client.ended(await client.submitted("echo"))
    out, _ = await process.communicate()
    assert json.loads(out) == [["snapshot", 3], *(["event", seq] for seq in range(4, 10))]
