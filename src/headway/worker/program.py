"""A worker at work: it serves, says so to the registry, and leaves in good order."""

import asyncio
import errno
import ipaddress
import json
import os
import socket
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
from aiohttp import web

from headway.core.errors import ConfigurationError
from headway.core.worker.worker_address import check_worker_url
from headway.log import event_log
from headway.worker.built_in import builtin_services
from headway.worker.service_registry import Services
from headway.worker.worker_guard import WorkerGuard
from headway.worker.worker_server import THREAD_COUNT_MAX, CallServer

DEFAULT_URL: Final = "http://127.0.0.1:8080"
DEFAULT_REGISTRY_URL: Final = "http://127.0.0.1:8070"
REGISTER_RETRY_S: Final = 2.0
REREGISTER_S: Final = 60.0
"""A registry that has lost or forgotten it answers its heartbeats as ever."""
HEARTBEAT_S: Final = 5.0
DEREGISTER_TIMEOUT_S: Final = 2.0
"""For so long it waits until the registry has heard that it leaves."""
DRAIN_S: Final = 10.0
REQUEST_TIMEOUT_S: Final = 5.0
TOKEN_LENGTH_MIN: Final = 16
ERROR_BYTE_COUNT_MAX: Final = 2_000

log = event_log(__name__)


class Worker:
    """Works inside `async with`. Without more it takes what the environment says (R5.13)."""

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
        """`token` is for the registry; `worker_token` is what whoever calls it must send."""
        self._services = Services() if services is None else services
        self._services.include(builtin_services)
        wanted_url = url or os.environ.get("WORKER_URL") or DEFAULT_URL
        self.requested_url = _check_listen_url(wanted_url)
        registry = registry_url or os.environ.get("REGISTRY_URL") or DEFAULT_REGISTRY_URL
        self.registry_url = registry.rstrip("/")
        self.id = worker_id or f"worker-{uuid4().hex[:12]}"
        given_token = token or os.environ.get("HEADWAY_TOKEN")
        self._headers = {} if given_token is None else {"Authorization": f"Bearer {given_token}"}
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
        self._is_leaving = False
        self._register_lock = asyncio.Lock()
        self._last_error = ""
        """Why the registry did not hear its last word."""

    async def __aenter__(self) -> Self:
        host = urlsplit(self.requested_url).hostname or ""
        guard = WorkerGuard(hosts=[host], token=self._worker_token)
        bound = self._bind()
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"
        self._server = CallServer(self._services, thread_count_max=self._thread_count_max)
        self._runner = web.AppRunner(
            self._server.build_application(guard), handler_cancellation=True, access_log=None
        )
        await self._runner.setup()
        await web.SockSite(self._runner, bound).start()
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            trust_env=False,
        )
        self._group = await asyncio.TaskGroup().__aenter__()
        self._registration_task = self._group.create_task(self._keep_registered())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            # First it offers nothing any more, so that few come who have to be sent away.
            self._is_leaving = True
            with suppress(TimeoutError):
                async with asyncio.timeout(DEREGISTER_TIMEOUT_S):
                    await self._register()
            await self._server.drain(self._drain_s)
        finally:
            self._registration_task.cancel()
            await self._group.__aexit__(None, None, None)
            await self._session.close()
            await self._runner.cleanup()
            self._server.close()

    @property
    def load(self) -> int:
        """How many calls are under way."""
        return self._server.load

    async def wait_until_registered(self) -> None:
        """Return once the registry knows it."""
        await self._registered.wait()

    def _bind(self) -> socket.socket:
        """At the port that was wanted, or a free one if taken; ConfigurationError if it may not."""
        parts = urlsplit(self.requested_url)
        host = parts.hostname or ""
        bound = _bind_socket(host, parts.port or 80)
        address = str(bound.getsockname()[0])
        if self._worker_token is None and not ipaddress.ip_address(address).is_loopback:
            bound.close()
            raise ConfigurationError(
                f"a worker at {host} can be called from other hosts, and needs a token:"
                " set HEADWAY_WORKER_TOKEN, the same here and at the server"
            )
        return bound

    async def _keep_registered(self) -> None:
        """Register until it is heard; then say now and then that it lives, and what it does."""
        is_known = False
        while True:  # Until it is left.
            while not await self._register():
                is_known = False
                await asyncio.sleep(REGISTER_RETRY_S)
            if not is_known:
                log.info("worker_registered", extra={"worker_id": self.id, "url": self.url})
            self._registered.set()
            until_s = time.monotonic() + REREGISTER_S
            while (is_known := await self._send_heartbeat()) and time.monotonic() < until_s:  # noqa: ASYNC110
                await asyncio.sleep(self._heartbeat_s)

    async def _register(self) -> bool:
        async with self._register_lock:  # What was said last is what counts: nothing overtakes it.
            services = [] if self._is_leaving else self._services.names
            told = {"id": self.id, "url": self.url, "services": services, "load": 0}
            return await self._post("register", told)

    async def _send_heartbeat(self) -> bool:
        return await self._post("heartbeat", {"id": self.id, "url": self.url, "load": self.load})

    async def _post(self, word: str, body: dict[str, object]) -> bool:
        """Whether it was heard. Why not is logged once, and again when it is another reason."""
        try:
            async with self._session.post(f"{self.registry_url}/{word}", json=body) as answer:
                problem = "" if answer.status == 200 else await _read_error(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem and problem != self._last_error:
            log.warning("registry_awaited", extra={"reason": problem, "url": self.registry_url})
        self._last_error = problem
        return not problem


async def _read_error(answer: aiohttp.ClientResponse) -> str:
    """Its status, and the sentence that comes with it."""
    text = (await answer.content.read(ERROR_BYTE_COUNT_MAX)).decode(errors="replace")
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if isinstance(said, dict):
        text = str(said.get("detail") or said.get("error") or text)
    return f"HTTP {answer.status}: {text}"


def _check_listen_url(url: str) -> str:
    checked = check_worker_url(url)
    parts = urlsplit(checked)
    if parts.scheme != "http" or parts.path:
        problem = f"a worker listens at http://<host>:<port>, and not at {checked}"
        raise ConfigurationError(f"{problem}; set WORKER_URL")
    return checked


def _bind_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in (port, 0):
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, number))
            bound.listen()  # Or another that starts now could have the same port.
        except OSError as error:
            bound.close()
            if error.errno != errno.EADDRINUSE or number == 0:
                problem = f"the worker cannot listen at {host}:{number} ({error.strerror})"
                raise ConfigurationError(f"{problem}; set WORKER_URL") from None
        else:
            return bound
    raise AssertionError(port)
