"""The HTTP server of a worker: `/exec/{service}` and `/cancel/{call_id}`."""

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
    """Executes the calls that a worker receives, and counts the calls in flight.

    A call is canceled if its caller disconnects, cancels it or repeats it.
    """

    def __init__(self, services: Services, *, thread_count_max: int = THREAD_COUNT_MAX) -> None:
        """Create a server that executes `services`.

        Services that are a plain `def` run in threads. At most `thread_count_max` calls of such
        services run at once. Further calls wait.
        """
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
        """Refuse new calls, wait for the calls in flight, and cancel them after `wait_s`."""
        self.is_draining = True
        try:
            async with asyncio.timeout(wait_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning("calls_canceled", extra={"count": self.load})
            for call_id in list(self._calls):
                self._cancel_call(call_id)

    def close(self) -> None:
        """Close the thread pool without waiting for threads that ignore `Call.canceled`."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["service"]
        if self.is_draining:
            return web.json_response({"error": DRAINING}, status=503)
        if name not in self._services:
            return web.json_response({"error": f"unknown service {name!r}"}, status=404)
        try:
            text = (await request.read()).decode()
            body = decode_document(text, field="body", byte_count_max=CALL_BYTE_COUNT_MAX)
        except (InvalidInput, UnicodeDecodeError) as error:
            return web.json_response({"error": f"bad request: {error}"}, status=400)
        if not isinstance(body, dict) or not isinstance(body.get("params") or {}, dict):
            return web.json_response({"error": "bad request: must be an object"}, status=400)
        call_id = request.headers.get(CALL_ID_HEADER, "")
        generation = _parse_generation(request) or 0
        if not self._may_stop(call_id, generation):
            return web.json_response({"error": SUPERSEDED}, status=409)
        async with asyncio.TaskGroup() as group:
            response = CallResponse(request, group)
            call = Call(call_id, generation, response.send_progress)
            log_context.set(
                {"run_id": call.id.partition(".")[0], "call_id": call.id, "service": name}
            )
            adopted_span = open_adopted_span(
                f"serve {name}", request.headers.get(TRACEPARENT), log_context.get()
            )
            try:
                with adopted_span as span:
                    result = await self._call(name, body, call)
                    if "error" in result:
                        span.fail(result["error"])
            finally:
                response.close_progress()
        return await response.respond(result)

    async def _call(self, name: str, body: Mapping[str, Any], call: Call) -> dict[str, Any]:
        self.load += 1
        self._idle.clear()
        # A repeated call replaces the earlier one, whose connection the caller has lost.
        self._cancel_call(call.id)
        entry = (call, asyncio.current_task())
        if call.id:
            self._calls[call.id] = entry
        try:
            result = await self._services.call(
                name, body.get("input"), body.get("params") or {}, call, threads=self._threads
            )
            encode_document(result, field="result")
        except ServiceError as error:
            return {"error": str(error) or "failed"}
        except InvalidInput as error:
            return {"error": f"invalid_result: {error}"}
        except asyncio.CancelledError:
            if not call.canceled:  # The caller has disconnected.
                call.canceled = True
                raise
            return {"error": "canceled"}
        except (Exception, SystemExit) as error:  # Every error of a service is reported.
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
        """Return False if the call in flight belongs to a newer claim than `generation`.

        The holder of an older claim must not stop the call of a newer one (I2).
        """
        call, _ = self._calls.get(call_id, (None, None))
        return call is None or call.generation <= generation

    def _cancel_call(self, call_id: str) -> None:
        call, task = self._calls.pop(call_id, (None, None))
        if call is not None:
            call.canceled = True
            if task is not None:
                task.cancel()


async def _add_call_id_header(request: web.Request, response: web.StreamResponse) -> None:
    """Add the call id to the response. The caller checks that the response is its own (I1)."""
    call_id = request.headers.get(CALL_ID_HEADER)
    if call_id is not None:
        response.headers[CALL_ID_HEADER] = call_id


def _parse_generation(request: web.Request) -> int | None:
    """Return the generation of the caller's claim, or None if the header is missing or invalid.

    Callers without claims send no generation.
    """
    value = request.headers.get(GENERATION_HEADER, "")
    return int(value) if value.isdecimal() and len(value) < 10 else None
