"""How the server listens."""

import socket

from headway.api import server


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_first_part() -> None:
    with (
        server.open_listener("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
