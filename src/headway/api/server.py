"""The HTTP server. It runs in the event loop of its caller."""

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import uvicorn

from headway.api.application import build_application
from headway.api.headway_api import HeadwayApi
from headway.api.http.access import Access
from headway.api.http.connection import Connection, ConnectionTracker
from headway.api.http.origin import Origins, PublicAddress
from headway.api.routes.event_routes import encode_event
from headway.api.routes.metrics import Metrics
from headway.core.errors import ConfigurationError
from headway.process.dedicated import open_file_count_max
from headway.services.upkeep.event_feed import EventFeed

LOOPBACK_NAMES: Final = ("localhost",)
ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
"""Addresses that mean all interfaces, each with the loopback address of the same family."""
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
STOP_S_MAX: Final = 3
UNREAD_S_MAX: Final = 0.5
"""How long a stopping server waits for clients to read pending data."""


async def serve(
    api: HeadwayApi,
    *,
    host: str,
    port: int,
    access: Access,
    allowed_hosts: Sequence[str],
    version: str,
    on_ready: Callable[[str], None],
    public_address: PublicAddress | None = None,
    listener: socket.socket | None = None,
) -> None:
    """Serve the HTTP API until SIGINT or SIGTERM arrives.

    To stop, the server first ends the open event streams. `on_ready` receives the local URL of the
    server. `public_address` is the address that browsers use, if it differs from the listen
    address. A caller that checks early that the port is free passes the socket from
    `open_listener` as `listener`.
    """
    check_exposure(host, access)
    own_names = () if is_any_address(host) else (host,)
    origins = Origins((*allowed_hosts, *own_names), public_address=public_address)
    connections = ConnectionTracker(open_file_count_max=open_file_count_max())
    listener = listener or open_listener(host, port)
    bound_port = listener.getsockname()[1]
    try:
        metrics = Metrics()
        async with EventFeed(
            api.store, api.store.events, pack=encode_event, on_event=metrics.record_event
        ) as feed:
            app = build_application(
                api, feed, metrics, access=access, origins=origins, version=version
            )
            config = uvicorn.Config(
                app,
                http=partial(Connection, connections),  # type: ignore[arg-type]  # A factory.
                backlog=connections.backlog_count,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=STOP_S_MAX,
                ws="none",
            )
            on_ready(f"http://{_local_host(host)}:{bound_port}")
            server = _Server(config, connections, before_exit=(api.note_stop, feed.close))
            await _serve_until_stopped(server, listener)
    finally:
        listener.close()


def is_any_address(host: str) -> bool:
    return host.strip("[]") in ANY_ADDRESS


def _local_host(host: str) -> str:
    """Return the host that local clients use in URLs of this server.

    It is loopback if the server listens on all interfaces, because clients cannot connect to the
    address that means all interfaces.
    """
    bare = host.strip("[]")
    name = ANY_ADDRESS.get(bare, bare)
    return f"[{name}]" if ":" in name else name


def is_loopback(host: str) -> bool:
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, access: Access) -> None:
    """Raise ConfigurationError if the host is not loopback and there is no token (S1)."""
    if access.is_open and not is_loopback(host):
        raise ConfigurationError(
            f"host {host!r} is reachable from other machines, so a token is required; set"
            " HEADWAY_TOKEN, or serve on 127.0.0.1"
        )


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address, to be passed to `serve`.

    Raise ConfigurationError if the address cannot be used. Connections wait in the backlog until
    `serve` runs.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host.strip("[]"), port), family=family, reuse_port=False)
    except (OSError, OverflowError) as error:
        reason = "the port must be 0 to 65535"
        if isinstance(error, OSError):  # Python appends the address, which is already given.
            reason = str(error.strerror).partition(" (while attempting")[0]
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {reason}; choose another address with --host and"
            " --port"
        ) from None
    # Connections inherit the option. Without it, Nagle's algorithm holds the second part of a
    # response until the client has acknowledged the first, which takes 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def _serve_until_stopped(server: "_Server", listener: socket.socket) -> None:
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:  # Cancelling `serving` would leave its connections open.
        server.stop()
        await asyncio.wait([serving])
        raise


class _Server(uvicorn.Server):
    """A uvicorn server that calls the `before_exit` callbacks when it stops.

    The callbacks end the open event streams. uvicorn waits for all connections to end, and the
    connection of an event stream ends only when the stream ends.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        connections: ConnectionTracker,
        *,
        before_exit: Sequence[Callable[[], None]],
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self._before_exit = before_exit

    async def on_tick(self, counter: int) -> bool:
        self._connections.abort_silent(now_s=asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own method raises the signal again at its end, during our clean-up.
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        for callback in self._before_exit:
            callback()
        self.force_exit = self.should_exit  # A second signal stops at once.
        self.should_exit = True
        asyncio.get_running_loop().call_later(UNREAD_S_MAX, self._abort_stalled)

    def _abort_stalled(self) -> None:
        """Abort connections whose client does not read, because they would delay the stop."""
        for connection in list(self.server_state.connections):
            if connection.transport.get_write_buffer_size() > 0:
                connection.transport.abort()
