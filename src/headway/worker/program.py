"""The worker program: serves calls, stays registered, and drains its calls before it exits."""

import asyncio
import errno
import ipaddress
import json
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
from aiohttp import web

from headway.core.errors import ConfigurationError
from headway.core.worker.worker_address import check_worker_url
from headway.log import event_log
from headway.services.background_tasks import BackgroundTasks
from headway.worker.built_in import builtin_services
from headway.worker.service_registry import Services
from headway.worker.worker_guard import WorkerGuard
from headway.worker.worker_server import THREAD_COUNT_MAX, CallServer

DEFAULT_URL: Final = "http://127.0.0.1:8080"
DEFAULT_REGISTRY_URL: Final = "http://127.0.0.1:8070"
REGISTER_RETRY_S: Final = 2.0
REREGISTER_S: Final = 60.0
"""The time between two registrations.

A registry that has lost the worker's registration still accepts its heartbeats, so heartbeats alone
are not enough.
"""
HEARTBEAT_S: Final = 5.0
DEREGISTER_TIMEOUT_S: Final = 2.0
"""How long a worker waits on exit until the registry has accepted its deregistration."""
DRAIN_S: Final = 10.0
REQUEST_TIMEOUT_S: Final = 5.0
TOKEN_LENGTH_MIN: Final = 16
ERROR_BYTE_COUNT_MAX: Final = 2_000

log = event_log(__name__)


class Worker:
    """A worker, which executes services for flows until its `async with` block ends.

    Addresses and tokens that are not given come from environment variables (R5.13).
    """

    def __init__(
        self,
        services: Services | None = None,
        *,
        url: str | None = None,
        registry_url: str | None = None,
        worker_id: str | None = None,
        token: str | None = None,
        worker_token: str | None = None,
        thread_count_max: int = THREAD_COUNT_MAX,
        drain_s: float = DRAIN_S,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        """Create a worker that offers `services` and the built-in services.

        The worker sends `token` to the registry, which is the headway server. Callers of the worker
        must send `worker_token`.
        """
        self._services = Services() if services is None else services
        self._services.include(builtin_services)
        listen_url = url or os.environ.get("WORKER_URL") or DEFAULT_URL
        self.requested_url = _check_listen_url(listen_url)
        registry = registry_url or os.environ.get("REGISTRY_URL") or DEFAULT_REGISTRY_URL
        self.registry_url = registry.rstrip("/")
        self.id = worker_id or f"worker-{uuid4().hex[:12]}"
        registry_token = token or os.environ.get("HEADWAY_TOKEN")
        self._headers = (
            {} if registry_token is None else {"Authorization": f"Bearer {registry_token}"}
        )
        self._worker_token = worker_token or os.environ.get("HEADWAY_WORKER_TOKEN") or None
        if self._worker_token is not None and len(self._worker_token) < TOKEN_LENGTH_MIN:
            raise ConfigurationError(
                f"the worker's token is shorter than {TOKEN_LENGTH_MIN} characters;"
                " make one with: openssl rand -hex 32"
            )
        self._thread_count_max = thread_count_max
        self._drain_s = drain_s
        self._heartbeat_s = heartbeat_s
        self._registered = asyncio.Event()
        self._is_stopping = False
        self._register_lock = asyncio.Lock()
        self._last_error = ""
        """The error of the last request to the registry, or empty if it succeeded."""

    async def __aenter__(self) -> Self:
        self._serving = self._serve()
        await self._serving.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._serving.__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def _serve(self) -> AsyncIterator[None]:
        host = urlsplit(self.requested_url).hostname or ""
        guard = WorkerGuard(hosts=[host], token=self._worker_token)
        bound = self._bind()
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"
        async with AsyncExitStack() as opened:
            self._server = CallServer(self._services, thread_count_max=self._thread_count_max)
            opened.callback(self._server.close)
            runner = web.AppRunner(
                self._server.build_application(guard), handler_cancellation=True, access_log=None
            )
            opened.push_async_callback(runner.cleanup)
            await runner.setup()
            await web.SockSite(runner, bound).start()
            session = aiohttp.ClientSession(
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
                trust_env=False,
            )
            self._session = await opened.enter_async_context(session)
            background = await opened.enter_async_context(BackgroundTasks())
            background.start_loop(self._keep_registered())
            try:
                yield
            finally:
                await self._drain()

    async def _drain(self) -> None:
        # Register without services first, so that fewer new calls must be refused.
        self._is_stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(DEREGISTER_TIMEOUT_S):
                await self._register()
        await self._server.drain(self._drain_s)

    @property
    def load(self) -> int:
        """The number of calls in flight."""
        return self._server.load

    async def wait_until_registered(self) -> None:
        """Return once the registry has accepted the registration."""
        await self._registered.wait()

    def _bind(self) -> socket.socket:
        """Bind the requested port, or a free port if the requested one is in use.

        Raise ConfigurationError if other hosts can reach the address and there is no worker token.
        """
        parts = urlsplit(self.requested_url)
        host = parts.hostname or ""
        bound = _bind_socket(host, parts.port or 80)
        address = str(bound.getsockname()[0])
        if self._worker_token is None and not ipaddress.ip_address(address).is_loopback:
            bound.close()
            raise ConfigurationError(
                f"a worker at {host} is reachable from other hosts, so a token is required;"
                " set HEADWAY_WORKER_TOKEN to the same value here and at the server"
            )
        return bound

    async def _keep_registered(self) -> None:
        """Keep the worker registered: register, send heartbeats, and register again regularly.

        A failed registration is retried until it succeeds.
        """
        is_registered = False
        while True:  # Until canceled.
            while not await self._register():
                is_registered = False
                await asyncio.sleep(REGISTER_RETRY_S)
            if not is_registered:
                log.info("worker_registered", extra={"worker_id": self.id, "url": self.url})
            self._registered.set()
            until_s = time.monotonic() + REREGISTER_S
            while (is_registered := await self._send_heartbeat()) and time.monotonic() < until_s:  # noqa: ASYNC110
                await asyncio.sleep(self._heartbeat_s)

    async def _register(self) -> bool:
        # The last registration wins, so requests must not overtake each other.
        async with self._register_lock:
            services = [] if self._is_stopping else self._services.names
            body = {"id": self.id, "url": self.url, "services": services, "load": 0}
            return await self._post("register", body)

    async def _send_heartbeat(self) -> bool:
        return await self._post("heartbeat", {"id": self.id, "url": self.url, "load": self.load})

    async def _post(self, path: str, body: dict[str, object]) -> bool:
        """Send a request to the registry. Return True if the registry has accepted it.

        An error is logged unless it is the same as that of the previous request.
        """
        try:
            async with self._session.post(f"{self.registry_url}/{path}", json=body) as response:
                problem = "" if response.status == 200 else await _read_error(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem and problem != self._last_error:
            log.warning("registry_unavailable", extra={"reason": problem, "url": self.registry_url})
        self._last_error = problem
        return not problem


async def _read_error(response: aiohttp.ClientResponse) -> str:
    """Return the status and the error text of a response."""
    text = (await response.content.read(ERROR_BYTE_COUNT_MAX)).decode(errors="replace")
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, dict):
        text = str(document.get("detail") or document.get("error") or text)
    return f"HTTP {response.status}: {text}"


def _check_listen_url(url: str) -> str:
    checked = check_worker_url(url)
    parts = urlsplit(checked)
    if parts.scheme != "http" or parts.path:
        problem = f"a worker cannot listen at {checked}"
        raise ConfigurationError(f"{problem}; set WORKER_URL to http://<host>:<port>")
    return checked


def _bind_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in (port, 0):
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, number))
            bound.listen()  # Until then, SO_REUSEADDR lets another process bind the port.
        except OSError as error:
            bound.close()
            if error.errno != errno.EADDRINUSE or number == 0:
                problem = f"the worker cannot listen at {host}:{number} ({error.strerror})"
                raise ConfigurationError(f"{problem}; set WORKER_URL") from None
        else:
            return bound
    raise AssertionError(port)
