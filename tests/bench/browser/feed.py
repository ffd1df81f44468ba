"""A feed for the page: thousands of active runs, most of them queued, that change constantly.

It replaces the server, which is measured separately, so that only the page is measured. The
documents are those of the server: they are checked against its OpenAPI document.
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from aiohttp import web

from headway.api.routes.event_routes import event_id
from headway.api.web_page import BUILT_FOLDER, CONTENT_POLICY
from headway.core.ids import Instant
from headway.core.run import recent
from tests.api.openapi import component_validator

TICK_S: Final = 0.02
MOVE_EVERY: Final = 20
"""Every so many changes, a run ends: the next in the queue starts, and a new one is queued."""
LASTING: Final = "key-00000"
"""The run that never ends.

Its progress field `told` counts the changes that the page has applied.
"""
RUNNING_SHARE: Final = 0.01
"""The share of runs that are running; the others are queued, as on a board with a limit."""


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _event_id(seq: int) -> str:
    """Return an id as the server makes it: the `seq`, and a mark that is constant per event."""
    return event_id(seq, Instant(seq))


class Feed:
    def __init__(self, run_count: int, changes_per_s: int) -> None:
        self._changes_per_s = changes_per_s
        self._seq = run_count
        self._numbers = count(run_count)
        self._running_count = max(2, int(run_count * RUNNING_SHARE))
        first = (self._begun(self._run(index)) for index in range(self._running_count))
        self._running = deque(first)
        self._queued = deque(self._run(index) for index in range(self._running_count, run_count))
        self._turn = 0

    def _run(self, index: int) -> dict[str, Any]:
        at = _now()
        nothing = dict.fromkeys(
            (
                *(
                    "started_at",
                    "ended_at",
                    "wake_at",
                    "run_deadline_at",
                    "cancel_deadline_at",
                    "continued_from",
                ),
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
            "status": "queued",
            "state": "Queued",
            "seq": index + 1,
            "ready_seq": index + 1,
            "is_waiting": False,
            "is_behind": False,
            "revision": 1,
            "generation": 1,
            "attempt": 1,
            "unread_count": 0,
            "is_listening": False,
            "queued_at": at,
            "updated_at": at,
            "params": {"url": f"https://example.org/{index}"},
            "progress": None,
        }

    def _begun(self, run: dict[str, Any]) -> dict[str, Any]:
        figures = {"downloaded": 0, "skipped": 0}
        at = _now()
        begun = {"status": "running", "state": "Running", "started_at": at, "updated_at": at}
        return {**run, **begun, "ready_seq": None, "progress": figures}

    def state(self) -> dict[str, Any]:
        runs = [*self._running, *self._queued]
        keys = [
            {name: run[name] for name in ("key", "job", "params", "revision")}
            | {"updated_at": run["queued_at"]}
            for run in runs
        ]
        lane = {"name": "main", "max_concurrent": self._running_count, "max_queued": None}
        counts = {"held_count": len(self._running), "queued_count": len(self._queued)}
        lane |= {**counts, "waiting_count": 0, "paused": False, "revision": 1}
        state = {"seq": self._seq, "event_id": _event_id(self._seq), "epoch": 0}
        state |= {"lanes": [lane], "keys": keys, "runs": runs, "last_runs": []}
        return state | {"recent": self._recent(runs), "instances": [], "workers": []}

    def _recent(self, runs: list[dict[str, Any]]) -> dict[str, Any]:
        newest = sorted(runs, key=lambda run: run["seq"], reverse=True)
        keys = [{"key": run["key"], "seq": run["seq"]} for run in newest]
        limits = {
            "key_count_max": recent.KEY_COUNT_MAX,
            "event_count_max": recent.EVENT_COUNT_MAX,
            "event_step": recent.EVENT_STEP,
        }
        has_older = len(keys) > recent.KEY_COUNT_MAX
        return {"keys": keys[: recent.KEY_COUNT_MAX], "has_older": has_older, **limits}

    def changes(self) -> Iterator[dict[str, Any]]:
        """Make the next change: the progress of a run, or an end with the two starts that it
        causes.
        """
        self._turn += 1
        run = self._running.popleft()
        if self._turn % MOVE_EVERY:
            figures = run["progress"]
            told = {"downloaded": figures["downloaded"] + 1, "told": self._turn}
            run["progress"] = figures | told
            self._running.append(run)
            yield self._event(run, "run_progress", run["progress"])
            return
        if run["key"] == LASTING:
            self._running.append(run)
            run = self._running.popleft()
        yield self._event(run, "run_state_changed", {"to": "succeeded"}, "Done")
        index = int(run["key"].removeprefix("key-"))
        fresh = self._run(index) | {"id": f"run-{next(self._numbers)}"}
        yield self._event(fresh, "run_state_changed", {"to": "queued"}, "Queued")
        self._queued.append(fresh | {"seq": self._seq, "ready_seq": self._seq})
        following = self._begun(self._queued.popleft())
        self._running.append(following)
        yield self._event(following, "run_state_changed", {"to": "running"}, "Running")

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
        while request.transport is not None:  # Until the browser disconnects.
            due = int((time.monotonic() - begun_s) * self._changes_per_s)
            blocks = []
            while sent < due:
                sent += 1
                for event in self.changes():
                    data = json.dumps(event)
                    blocks.append(
                        f"id: {_event_id(event['seq'])}\nevent: {event['type']}\ndata: {data}\n\n"
                    )
            await response.write("".join(blocks).encode() or b": ping\n\n")
            await asyncio.sleep(TICK_S)
        return response


def application(feed: Feed) -> web.Application:
    component_validator("StateView").validate(feed.state())
    validator = component_validator("EventView")
    for event in feed.changes():
        validator.validate(event)

    async def state(_request: web.Request) -> web.Response:
        return web.json_response(feed.state())

    async def jobs(_request: web.Request) -> web.Response:
        return web.json_response({"jobs": []})

    async def interrupts(_request: web.Request) -> web.Response:
        return web.json_response({"interrupts": [], "cursor": None})

    async def tasks(_request: web.Request) -> web.Response:
        return web.json_response({"tasks": []})

    async def page(request: web.Request) -> web.FileResponse:
        wanted = BUILT_FOLDER / (request.match_info["path"] or "index.html")
        return web.FileResponse(wanted, headers={"content-security-policy": CONTENT_POLICY})

    made = web.Application()
    made.router.add_get("/api/state", state)
    made.router.add_get("/api/events", feed.stream)
    made.router.add_get("/api/jobs", jobs)
    made.router.add_get("/api/interrupts", interrupts)
    made.router.add_get("/api/tasks", tasks)
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
