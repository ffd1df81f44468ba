"""A client whose body is refused receives the reason while it is still sending (I20)."""

import asyncio
import http.client
import socket
from urllib.parse import urlsplit

import pytest

from headway.api.http import connection
from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")

MIB = 1 << 20
HEAD = b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BOUND_S = 20.0


def send_then_read(address: str, body_byte_count: int, *, is_chunked: bool) -> bytes:
    """Send the whole body as httpx does: read the answer only when sending ended or failed."""
    address_parts = urlsplit(address)
    size = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % body_byte_count
    part = b" " * (64 << 10)
    with socket.create_connection(
        (address_parts.hostname, address_parts.port), timeout=BOUND_S
    ) as client:
        try:
            client.sendall(HEAD + size + b"\r\n\r\n")
            for _ in range(body_byte_count // len(part)):
                client.sendall(b"%x\r\n%s\r\n" % (len(part), part) if is_chunked else part)
            if is_chunked:
                client.sendall(b"0\r\n\r\n")
        except ConnectionError:
            pass  # An answer that was sent before may still be readable.
        parts = []
        while part := client.recv(64 << 10):
            parts.append(part)
        return b"".join(parts)


def post_with_library(address: str, body_byte_count: int) -> int:
    address_parts = urlsplit(address)
    client = http.client.HTTPConnection(
        address_parts.hostname or "", address_parts.port, timeout=BOUND_S
    )
    try:
        headers = {"content-type": "application/json"}
        client.request("POST", "/api/runs", body=b" " * body_byte_count, headers=headers)
        return client.getresponse().status
    finally:
        client.close()


@pytest.mark.proves("I20")
@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
async def test_client_that_is_still_sending_its_body_receives_the_413(
    client: Client, is_chunked: bool
) -> None:
    for number in range(20):
        size = (2 + number % 19) * MIB
        answer = await asyncio.to_thread(
            send_then_read, client.address, size, is_chunked=is_chunked
        )
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413 "), (size, answer)
        assert b"the body is too large; the limit is 1,048,576 bytes" in body


@pytest.mark.proves("I20")
async def test_library_that_sends_the_whole_body_receives_the_413(client: Client) -> None:
    for number in range(20):
        size = (2 + number % 19) * MIB
        assert await asyncio.to_thread(post_with_library, client.address, size) == 413


@pytest.mark.proves("I20")
async def test_slow_sender_cannot_hold_a_refused_connection(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DRAIN_S_MAX", 0.2)
    assert await count_bytes_taken(client, part=b"x") < MIB


@pytest.mark.proves("I20")
async def test_fast_sender_of_a_refused_body_is_cut_off_at_the_byte_limit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DRAIN_BYTE_COUNT_MAX", 4 * MIB)
    monkeypatch.setattr(connection, "DRAIN_S_MAX", 3_600.0)
    taken = await count_bytes_taken(client, part=b"x" * (64 << 10))
    assert 4 * MIB <= taken < 64 * MIB


async def count_bytes_taken(client: Client, *, part: bytes) -> int:
    """Send the body of a refused request, part by part, until the server ends the connection."""
    address_parts = urlsplit(client.address)
    _, writer = await asyncio.open_connection(address_parts.hostname, address_parts.port)
    count = 0
    try:
        writer.write(HEAD + b"Content-Length: 1000000000000\r\n\r\n")
        async with asyncio.timeout(BOUND_S):
            while True:
                writer.write(part)
                await writer.drain()
                count += len(part)
                await client.get("/healthz")
    except ConnectionError:
        return count
    finally:
        writer.close()
