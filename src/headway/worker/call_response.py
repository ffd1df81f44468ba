"""The answer to a call: JSON, all at once; or, if its caller listens to progress, line by line.

A caller that listens says so (`Accept: application/x-ndjson`). Then each line of the answer is a
JSON object: `{"progress": {…}}`, as often as there is something to tell, and last what would have
been the whole answer. A service that tells nothing is answered in the ordinary way.
"""

import asyncio
import json
import threading
from typing import Any, Final

from aiohttp import web

from headway.core.document import Document
from headway.core.worker.worker_protocol import NDJSON_MEDIA_TYPE

PROGRESS_INTERVAL_S: Final = 0.1
"""What is told more often than this is told late, and only the last of it."""


class CallResponse:
    """Of one call. `group` owns what tells of progress, and ends with the call."""

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
        """From any thread; nobody waits for it, and when nobody listens it is dropped."""
        if not self._accepts_progress:
            return
        if threading.get_ident() == self._thread_id:
            self._queue_progress(progress)  # At once: the service may end in this very turn.
        else:
            self._loop.call_soon_threadsafe(self._queue_progress, progress)

    def _queue_progress(self, progress: Document) -> None:
        if self._ended.is_set():  # A thread that did not hear that nobody waits.
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
        except OSError:  # Whoever asked is gone.
            return False
        return True

    def close_progress(self) -> None:
        """Nothing more is told; what waits to be told still is."""
        self._ended.set()

    async def respond(self, body: dict[str, Any]) -> web.StreamResponse:
        """Once the group has ended."""
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        if self._stream is None:
            return web.Response(body=text, content_type="application/json")
        if await self._write_line(text + b"\n"):
            await self._stream.write_eof()
        return self._stream
