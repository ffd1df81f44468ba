"""Who may call the services of a worker: programs that mean it, and no page of a browser (S1, S3).

A worker listens at a well-known port of the host at which people read the web. What a page can send
without being asked is recognised by its headers, and turned away before anything is read.
"""

import hmac
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
JSON: Final = "application/json"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WorkerGuard:
    def __init__(self, *, hosts: Iterable[str] = (), token: str | None = None) -> None:
        """`hosts` are the names by which it may be called besides those of this host."""
        self._hosts = frozenset(host.lower() for host in hosts) | LOOPBACK_HOSTS
        self._authorization = None if token is None else f"Bearer {token}".encode()

    @web.middleware
    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            status, problem = refusal
            return web.json_response({"error": problem}, status=status)
        return await handler(request)

    def _refusal(self, request: web.Request) -> tuple[int, str] | None:
        headers = request.headers
        if _host_name(headers.get("Host", "")) not in self._hosts:
            return 421, "this worker does not answer to that Host; see WORKER_URL"
        if "Origin" in headers or headers.get("Sec-Fetch-Site", "none") != "none":
            return 403, "a page of a browser may not call this worker"
        if self._authorization is not None and not hmac.compare_digest(
            headers.get("Authorization", "").encode("utf-8", "surrogateescape"),
            self._authorization,
        ):
            return 401, "this worker needs its token: HEADWAY_WORKER_TOKEN, here and at the server"
        if request.method == "POST" and request.content_type != JSON:
            return 415, f"send JSON: Content-Type: {JSON}"
        return None


@lru_cache(maxsize=100)
def _host_name(host: str) -> str | None:
    """Without its port; most requests say the same."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
