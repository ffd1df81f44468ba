"""Socket options of the listener."""

import socket

from headway.api import server


def test_listener_disables_nagle_for_its_connections() -> None:
    with (
        server.open_listener("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
