"""The HTTP side of a worker: what it is asked, and what it is told to stop."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from headway.core.document import BYTE_COUNT_MAX, decode_document, encode_document
from headway.core.errors import InvalidInput
from headway.log import about, event_log
from headway.trace import TRACEPARENT, adopted_span
from headway.worker.services import Call, ServiceError, Services
from headway.worker.telling import Answering

CALL_ID_HEADER: Final = "Headway-Call-Id"
GENERATION_HEADER: Final = "Headway-Generation"
DRAINING: Final = "draining"

log = event_log(__name__)


class CallServer:
    """Counts what is under way, and ends what nobody waits for."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._calls: dict[str, tuple[Call, asyncio.Task[Any] | None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.load = 0
        self.is_draining = False

    def application(self) -> web.Application:
        app = web.Application(client_max_size=BYTE_COUNT_MAX)
        app.router.add_post("/exec/{service}", self._exec)
        app.router.add_post("/cancel/{call_id}", self._cancel)
        return app

    async def drain(self, wait_s: float) -> None:
        """Take no more calls, and let those under way end; after so long they are cancelled."""
        self.is_draining = True
        try:
            async with asyncio.timeout(wait_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning("calls_cancelled", extra={"count": self.load})
            for call_id in list(self._calls):
                self._stop(call_id)

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["service"]
        if self.is_draining:
            return web.json_response({"error": DRAINING}, status=503)
        if name not in self._services:
            return web.json_response({"error": f"unknown service {name!r}"}, status=404)
        try:
            given = decode_document((await request.read()).decode(), place="body")
        except (InvalidInput, UnicodeDecodeError) as error:
            return web.json_response({"error": f"bad request: {error}"}, status=400)
        if not isinstance(given, dict) or not isinstance(given.get("params") or {}, dict):
            return web.json_response({"error": "bad request: must be an object"}, status=400)
        generation = request.headers.get(GENERATION_HEADER, "")
        async with asyncio.TaskGroup() as group:
            answering = Answering(request, group)
            call = Call(
                request.headers.get(CALL_ID_HEADER, ""),
                int(generation) if generation.isdecimal() and len(generation) < 10 else 0,
                asyncio.Event(),
                answering.tell,
            )
            about.set({"run_id": call.id.partition(".")[0], "call_id": call.id, "service": name})
            traced = adopted_span(f"serve {name}", request.headers.get(TRACEPARENT), about.get())
            try:
                with traced as span:
                    said = await self._called(name, given, call)
                    if "error" in said:
                        span.fail(said["error"])
            finally:
                answering.end()
        return await answering.answer(said)

    async def _called(self, name: str, given: Mapping[str, Any], call: Call) -> dict[str, Any]:
        self.load += 1
        self._idle.clear()
        # Who asks again was away, and wants the answer of this call, not of the one before.
        self._stop(call.id)
        entry = (call, asyncio.current_task())
        if call.id:
            self._calls[call.id] = entry
        try:
            result = await self._services.call(
                name, given.get("input"), given.get("params") or {}, call
            )
            encode_document(result, place="result")
        except ServiceError as error:
            return {"error": str(error) or "failed"}
        except InvalidInput as error:
            return {"error": f"invalid_result: {error}"}
        except asyncio.CancelledError:
            if not call.cancelled.is_set():  # The connection is gone.
                call.cancelled.set()
                raise
            return {"error": "canceled"}
        except Exception as error:  # A service may raise anything: it is what the caller is told.
            log.info("service_failed", exc_info=error, extra={"service": name})
            return {"error": f"{type(error).__name__}: {error}"}
        finally:
            if self._calls.get(call.id) is entry:
                del self._calls[call.id]
            self.load -= 1
            if not self.load:
                self._idle.set()
        return {"result": result}

    async def _cancel(self, request: web.Request) -> web.Response:
        self._stop(request.match_info["call_id"])
        return web.json_response({"ok": "1"})

    def _stop(self, call_id: str) -> None:
        call, task = self._calls.pop(call_id, (None, None))
        if call is not None:
            call.cancelled.set()
            if task is not None:
                task.cancel()
