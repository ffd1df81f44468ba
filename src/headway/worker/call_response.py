"""The response to a call: one JSON document, or JSON lines if the caller accepts progress.

A caller accepts progress with `Accept: application/x-ndjson`. Then each line of the response is a
JSON object: any number of `{"progress": {…}}`, and last the object that would otherwise be the
whole response. If the service sends no progress, the response is one JSON document.
"""

import asyncio
import json
import threading
from typing import Any, Final

from aiohttp import web

from headway.core.document import Document
from headway.core.worker.worker_protocol import NDJSON_MEDIA_TYPE

PROGRESS_INTERVAL_S: Final = 0.1
"""Minimum time between two progress lines. Only the last update in between is sent."""


class CallResponse:
    """Writes the response to one call. `group` owns the task that writes progress."""

    def __init__(self, request: web.Request, group: asyncio.TaskGroup) -> None:
        self._request = request
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._accepts_progress = NDJSON_MEDIA_TYPE in request.headers.get("Accept", "")
        self._latest: Document | None = None
        self._progress_task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._stream: web.StreamResponse | None = None

    def send_progress(self, progress: Document) -> None:
        """Queue progress. It is dropped if the caller does not accept progress. Thread-safe."""
        if not self._accepts_progress:
            return
        if threading.get_ident() == self._thread_id:
            # Not in a later iteration of the event loop: the service may end in this one.
            self._queue_progress(progress)
        else:
            self._loop.call_soon_threadsafe(self._queue_progress, progress)

    def _queue_progress(self, progress: Document) -> None:
        if self._ended.is_set():  # The thread of a canceled call may still send progress.
            return
        self._latest = progress
        if self._progress_task is None:
            self._progress_task = self._group.create_task(self._write_progress())

    async def _write_progress(self) -> None:
        while (progress := self._latest) is not None:
            self._latest = None
            if not await self._write_line(f'{{"progress":{progress}}}\n'.encode()):
                self._accepts_progress = False
                return
            try:
                async with asyncio.timeout(PROGRESS_INTERVAL_S):
                    await self._ended.wait()
            except TimeoutError:
                continue
        self._progress_task = None

    async def _write_line(self, line: bytes) -> bool:
        try:
            if self._stream is None:
                stream = web.StreamResponse(headers={"Content-Type": NDJSON_MEDIA_TYPE})
                await stream.prepare(self._request)
                self._stream = stream
            await self._stream.write(line)
        except OSError:  # The caller has disconnected.
            return False
        return True

    def close_progress(self) -> None:
        """Accept no more progress. Queued progress is still written."""
        self._ended.set()

    async def respond(self, body: dict[str, Any]) -> web.StreamResponse:
        """Send `body` as the last object of the response. The task group must have ended."""
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        if self._stream is None:
            return web.Response(body=text, content_type="application/json")
        if await self._write_line(text + b"\n"):
            await self._stream.write_eof()
        return self._stream
