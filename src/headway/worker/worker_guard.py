"""Access checks of a worker: programs may call it, but browser pages may not (S1, S3).

A worker listens on a well-known port, often on a machine with a browser, so any web page could send
it requests. Such requests are recognized by their headers and refused before their body is read.
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
        """Accept requests to `hosts` or loopback hosts. If `token` is set, callers must send it."""
        self._hosts = frozenset(host.lower() for host in hosts) | LOOPBACK_HOSTS
        self._authorization = None if token is None else f"Bearer {token}".encode()

    @web.middleware
    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._find_refusal(request)
        if refusal is not None:
            status, problem = refusal
            return web.json_response({"error": problem}, status=status)
        return await handler(request)

    def _find_refusal(self, request: web.Request) -> tuple[int, str] | None:
        headers = request.headers
        if _host_name(headers.get("Host", "")) not in self._hosts:
            return 421, "this host name is not allowed; set it in WORKER_URL"
        if "Origin" in headers or headers.get("Sec-Fetch-Site", "none") != "none":
            return 403, "a browser page may not call this worker"
        if self._authorization is not None and not hmac.compare_digest(
            headers.get("Authorization", "").encode("utf-8", "surrogateescape"),
            self._authorization,
        ):
            return (
                401,
                "invalid token; set HEADWAY_WORKER_TOKEN to the same value here and at the server",
            )
        if request.method == "POST" and request.content_type != JSON:
            return 415, f"send JSON: Content-Type: {JSON}"
        return None


@lru_cache(maxsize=100)
def _host_name(host: str) -> str | None:
    """Return a host without its port. Cached, because most requests send the same value."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
