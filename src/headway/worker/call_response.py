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
from headway.core.worker.worker_protocol import LINES

INTERVAL_S: Final = 0.1
"""What is told more often than this is told late, and only the last of it."""


class Answering:
    """Of one call. `group` owns what tells of progress, and ends with the call."""

    def __init__(self, request: web.Request, group: asyncio.TaskGroup) -> None:
        self._request = request
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._is_heard = LINES in request.headers.get("Accept", "")
        self._latest: Document | None = None
        self._telling: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()
        self._stream: web.StreamResponse | None = None

    def tell(self, progress: Document) -> None:
        """From any thread; nobody waits for it, and when nobody listens it is dropped."""
        if not self._is_heard:
            return
        if threading.get_ident() == self._thread_id:
            self._put(progress)  # At once: the service may end in this very turn.
        else:
            self._loop.call_soon_threadsafe(self._put, progress)

    def _put(self, progress: Document) -> None:
        if self._is_over.is_set():  # A thread that did not hear that nobody waits.
            return
        self._latest = progress
        if self._telling is None:
            self._telling = self._group.create_task(self._tell())

    async def _tell(self) -> None:
        while (progress := self._latest) is not None:
            self._latest = None
            if not await self._said(f'{{"progress":{progress}}}\n'.encode()):
                self._is_heard = False
                return
            try:
                async with asyncio.timeout(INTERVAL_S):
                    await self._is_over.wait()
            except TimeoutError:
                continue
        self._telling = None

    async def _said(self, line: bytes) -> bool:
        try:
            if self._stream is None:
                stream = web.StreamResponse(headers={"Content-Type": LINES})
                await stream.prepare(self._request)
                self._stream = stream
            await self._stream.write(line)
        except OSError:  # Whoever asked is gone.
            return False
        return True

    def end(self) -> None:
        """Nothing more is told; what waits to be told still is."""
        self._is_over.set()

    async def answer(self, body: dict[str, Any]) -> web.StreamResponse:
        """Once the group has ended."""
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        if self._stream is None:
            return web.Response(body=text, content_type="application/json")
        if await self._said(text + b"\n"):
            await self._stream.write_eof()
        return self._stream
