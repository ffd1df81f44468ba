"""The HTTP side of a worker: what it is asked, and what it is told to stop."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from aiohttp import web

from headway.core.document import decode_document, encode_document
from headway.core.errors import InvalidInput
from headway.core.worker.worker_protocol import (
    CALL_BYTE_COUNT_MAX,
    CALL_ID_HEADER,
    DRAINING,
    GENERATION_HEADER,
)
from headway.log import event_log, log_context
from headway.trace import TRACEPARENT, open_adopted_span
from headway.worker.call_response import CallResponse
from headway.worker.service_registry import Call, ServiceError, Services
from headway.worker.worker_guard import WorkerGuard

THREAD_COUNT_MAX: Final = 64
SUPERSEDED: Final = "superseded: a newer claim makes this call"

log = event_log(__name__)


class CallServer:
    """Counts what is under way, and ends what nobody waits for."""

    def __init__(self, services: Services, *, thread_count_max: int = THREAD_COUNT_MAX) -> None:
        """Of services that are a plain `def`, so many run at once; more calls wait."""
        self._services = services
        self._threads = ThreadPoolExecutor(thread_count_max, thread_name_prefix="service")
        self._calls: dict[str, tuple[Call, asyncio.Task[Any] | None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.load = 0
        self.is_draining = False

    def build_application(self, guard: WorkerGuard | None = None) -> web.Application:
        admit = (guard or WorkerGuard()).admit
        app = web.Application(client_max_size=CALL_BYTE_COUNT_MAX, middlewares=[admit])
        app.on_response_prepare.append(_add_call_id_header)
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
                self._cancel_call(call_id)

    def close(self) -> None:
        """A thread that does not look whether it is cancelled is left to itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["service"]
        if self.is_draining:
            return web.json_response({"error": DRAINING}, status=503)
        if name not in self._services:
            return web.json_response({"error": f"unknown service {name!r}"}, status=404)
        try:
            text = (await request.read()).decode()
            given = decode_document(text, field="body", byte_count_max=CALL_BYTE_COUNT_MAX)
        except (InvalidInput, UnicodeDecodeError) as error:
            return web.json_response({"error": f"bad request: {error}"}, status=400)
        if not isinstance(given, dict) or not isinstance(given.get("params") or {}, dict):
            return web.json_response({"error": "bad request: must be an object"}, status=400)
        call_id, generation = (
            request.headers.get(CALL_ID_HEADER, ""),
            _parse_generation(request) or 0,
        )
        if not self._may_stop(call_id, generation):
            return web.json_response({"error": SUPERSEDED}, status=409)
        async with asyncio.TaskGroup() as group:
            answering = CallResponse(request, group)
            call = Call(call_id, generation, answering.send_progress)
            log_context.set(
                {"run_id": call.id.partition(".")[0], "call_id": call.id, "service": name}
            )
            traced = open_adopted_span(
                f"serve {name}", request.headers.get(TRACEPARENT), log_context.get()
            )
            try:
                with traced as span:
                    said = await self._call(name, given, call)
                    if "error" in said:
                        span.fail(said["error"])
            finally:
                answering.close_progress()
        return await answering.respond(said)

    async def _call(self, name: str, given: Mapping[str, Any], call: Call) -> dict[str, Any]:
        self.load += 1
        self._idle.clear()
        # Who asks again was away, and wants the answer of this call, not of the one before.
        self._cancel_call(call.id)
        entry = (call, asyncio.current_task())
        if call.id:
            self._calls[call.id] = entry
        try:
            result = await self._services.call(
                name, given.get("input"), given.get("params") or {}, call, threads=self._threads
            )
            encode_document(result, field="result")
        except ServiceError as error:
            return {"error": str(error) or "failed"}
        except InvalidInput as error:
            return {"error": f"invalid_result: {error}"}
        except asyncio.CancelledError:
            if not call.cancelled:  # The connection is gone.
                call.cancelled = True
                raise
            return {"error": "canceled"}
        except (Exception, SystemExit) as error:  # Whatever it raises, the caller is told.
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
        call_id, generation = request.match_info["call_id"], _parse_generation(request)
        if generation is None or self._may_stop(call_id, generation):
            self._cancel_call(call_id)
        return web.json_response({"ok": "1"})

    def _may_stop(self, call_id: str, generation: int) -> bool:
        """Whoever lost its claim may not stop what the next one has asked for (I2)."""
        call, _ = self._calls.get(call_id, (None, None))
        return call is None or call.generation <= generation

    def _cancel_call(self, call_id: str) -> None:
        call, task = self._calls.pop(call_id, (None, None))
        if call is not None:
            call.cancelled = True
            if task is not None:
                task.cancel()


async def _add_call_id_header(request: web.Request, response: web.StreamResponse) -> None:
    """Who has asked can be sure that it is answered, and not another (I1)."""
    call_id = request.headers.get(CALL_ID_HEADER)
    if call_id is not None:
        response.headers[CALL_ID_HEADER] = call_id


def _parse_generation(request: web.Request) -> int | None:
    """None when it is not said: whoever asks knows nothing of claims."""
    said = request.headers.get(GENERATION_HEADER, "")
    return int(said) if said.isdecimal() and len(said) < 10 else None
