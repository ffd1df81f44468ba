"""What the page is shown: thousands of active runs, and a stream that changes them all the time.

It stands in for the server, which is measured for itself, so that what is slow is the page. The
words are the server's: they are checked against its own description of them.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from aiohttp import web

from headway.api.page import BUILT_FOLDER, CONTENT_POLICY
from headway.api.state import StateView
from headway.api.wire import EventView

TICK_S: Final = 0.02
MOVE_EVERY: Final = 20
"""Of so many changes one is an end and a new beginning; the others are figures."""


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


class Feed:
    def __init__(self, run_count: int, changes_per_s: int) -> None:
        self._changes_per_s = changes_per_s
        self._seq = run_count
        self._numbers = count(run_count)
        self._runs = [self._run(index) for index in range(run_count)]
        self._turn = 0

    def _run(self, index: int) -> dict[str, Any]:
        at = _now()
        nothing = dict.fromkeys(
            (
                *("ready_seq", "ended_at", "wake_at", "run_by", "cancel_by", "continued_from"),
                *("parent_id", "traceparent", "checkpoint", "result", "error", "cancel"),
            )
        )
        return {
            **nothing,
            "id": f"run-{index}",
            "key": f"key-{index:05}",
            "job": "mirror",
            "lane": "main",
            "mode": "start",
            "status": "running",
            "state": "Running",
            "seq": index + 1,
            "is_waiting": False,
            "is_behind": False,
            "revision": 1,
            "generation": 1,
            "attempt": 1,
            "unread_count": 0,
            "queued_at": at,
            "started_at": at,
            "params": {"url": f"https://example.org/{index}"},
            "progress": {"downloaded": 0, "skipped": 0},
        }

    def state(self) -> dict[str, Any]:
        keys = [
            {name: run[name] for name in ("key", "job", "params", "revision")}
            | {"updated_at": run["queued_at"]}
            for run in self._runs
        ]
        lane = {"name": "main", "max_concurrent": len(self._runs), "max_queued": None}
        counts = {"held_count": len(self._runs), "queued_count": 0, "paused": False, "revision": 1}
        state = {"seq": self._seq, "lanes": [lane | counts], "keys": keys, "runs": self._runs}
        return state | {"last_runs": [], "instances": []}

    def changes(self) -> Iterator[dict[str, Any]]:
        """The next change of a run: an event, or the few of an end and a new beginning."""
        index = self._turn % len(self._runs)
        self._turn += 1
        run = self._runs[index]
        if self._turn % MOVE_EVERY:
            figures = run["progress"]
            run["progress"] = figures | {"downloaded": figures["downloaded"] + 1}
            yield self._event(run, "run_progress", run["progress"])
            return
        yield self._event(run, "run_state_changed", {"to": "succeeded"}, "Done")
        fresh = self._run(index) | {"id": f"run-{next(self._numbers)}"}
        self._runs[index] = fresh
        yield self._event(fresh, "run_state_changed", {"to": "queued"}, "Queued")
        yield self._event(fresh, "run_state_changed", {"to": "running"}, "Running")

    def _event(
        self, run: dict[str, Any], kind: str, payload: Any, state: str | None = None
    ) -> dict[str, Any]:
        self._seq += 1
        event = {"seq": self._seq, "type": kind, "run_id": run["id"], "run_seq": 1}
        event |= {"key": run["key"], "lane": "main", "at": _now(), "payload": payload}
        return event if state is None else event | {"state": state}

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        begun_s = time.monotonic()
        sent = 0
        while request.transport is not None:  # Until the browser leaves.
            due = int((time.monotonic() - begun_s) * self._changes_per_s)
            blocks = []
            while sent < due:
                sent += 1
                for event in self.changes():
                    data = json.dumps(event)
                    blocks.append(f"id: {event['seq']}\nevent: {event['type']}\ndata: {data}\n\n")
            await response.write("".join(blocks).encode() or b": ping\n\n")
            await asyncio.sleep(TICK_S)
        return response


def application(feed: Feed) -> web.Application:
    StateView.model_validate(feed.state())
    for event in feed.changes():
        EventView.model_validate(event)

    async def state(_request: web.Request) -> web.Response:
        return web.json_response(feed.state())

    async def jobs(_request: web.Request) -> web.Response:
        return web.json_response({"jobs": []})

    async def interrupts(_request: web.Request) -> web.Response:
        return web.json_response({"interrupts": [], "cursor": None})

    async def page(request: web.Request) -> web.FileResponse:
        wanted = BUILT_FOLDER / (request.match_info["path"] or "index.html")
        return web.FileResponse(wanted, headers={"content-security-policy": CONTENT_POLICY})

    made = web.Application()
    made.router.add_get("/api/state", state)
    made.router.add_get("/api/events", feed.stream)
    made.router.add_get("/api/jobs", jobs)
    made.router.add_get("/api/interrupts", interrupts)
    made.router.add_get("/ui/{path:.*}", page)
    return made


async def main(run_count: int, changes_per_s: int) -> None:
    runner = web.AppRunner(application(Feed(run_count, changes_per_s)), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
