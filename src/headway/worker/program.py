"""A worker at work: it serves, says so to the registry, and leaves in good order."""

import asyncio
import errno
import os
import socket
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
from aiohttp import web

from headway.core.errors import ConfigurationError
from headway.core.worker.worker import check_worker_url
from headway.log import event_log
from headway.worker.built_in import built_in
from headway.worker.server import CallServer
from headway.worker.services import Services

DEFAULT_URL: Final = "http://127.0.0.1:8080"
DEFAULT_REGISTRY_URL: Final = "http://127.0.0.1:8070"
REGISTER_AGAIN_S: Final = 2.0
HEARTBEAT_S: Final = 5.0
DRAIN_S: Final = 10.0
REQUEST_S: Final = 5.0

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
        drain_s: float = DRAIN_S,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._services = Services() if services is None else services
        self._services.include(built_in)
        wanted_url = url or os.environ.get("WORKER_URL") or DEFAULT_URL
        self.wanted_url = check_worker_url(wanted_url)
        registry = registry_url or os.environ.get("REGISTRY_URL") or DEFAULT_REGISTRY_URL
        self.registry_url = registry.rstrip("/")
        self.id = worker_id or f"worker-{uuid4().hex[:12]}"
        given_token = token or os.environ.get("HEADWAY_TOKEN")
        self._headers = {} if given_token is None else {"Authorization": f"Bearer {given_token}"}
        self._drain_s = drain_s
        self._heartbeat_s = heartbeat_s
        self._is_registered = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = CallServer(self._services)
        self._runner = web.AppRunner(
            self._server.application(), handler_cancellation=True, access_log=None
        )
        await self._runner.setup()
        self.url = await self._bind()
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=REQUEST_S),
            trust_env=False,
        )
        self._group = await asyncio.TaskGroup().__aenter__()
        self._telling = self._group.create_task(self._tell())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._server.drain(self._drain_s)
        finally:
            self._telling.cancel()
            await self._group.__aexit__(None, None, None)
            await self._session.close()
            await self._runner.cleanup()

    @property
    def load(self) -> int:
        """How many calls are under way."""
        return self._server.load

    async def registered(self) -> None:
        """Return once the registry knows it."""
        await self._is_registered.wait()

    async def _bind(self) -> str:
        """The address that is really bound: the port that was wanted, or a free one if taken."""
        parts = urlsplit(self.wanted_url)
        host = parts.hostname or "127.0.0.1"
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        bound = _bound(host, port)
        await web.SockSite(self._runner, bound).start()
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{bound.getsockname()[1]}"

    async def _tell(self) -> None:
        """Register until it is heard; then say now and then that it lives, and what it does."""
        while True:  # Until it is left.
            services = self._services.names
            told = {"id": self.id, "url": self.url, "services": services, "load": 0}
            while not await self._said("register", told):  # noqa: ASYNC110
                await asyncio.sleep(REGISTER_AGAIN_S)
            self._is_registered.set()
            log.info("worker_registered", extra={"worker_id": self.id, "url": self.url})
            while await self._lives():  # noqa: ASYNC110
                await asyncio.sleep(self._heartbeat_s)

    async def _lives(self) -> bool:
        return await self._said("heartbeat", {"id": self.id, "url": self.url, "load": self.load})

    async def _said(self, word: str, body: dict[str, object]) -> bool:
        try:
            async with self._session.post(f"{self.registry_url}/{word}", json=body) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("registry_awaited", extra={"reason": f"{type(error).__name__}: {error}"})
            return False


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in (port, 0):
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, number))
        except OSError as error:
            bound.close()
            if error.errno != errno.EADDRINUSE or number == 0:
                problem = f"the worker cannot listen at {host}:{number} ({error.strerror})"
                raise ConfigurationError(f"{problem}; set WORKER_URL") from None
        else:
            return bound
    raise AssertionError(port)
