"""Requests on one connection: pipelined, with trailers, with upgrades, or followed by garbage."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")

BOUND_S = 20.0
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNKNOWN = b"GET /api/runs/missing HTTP/1.1\r\nHost: localhost\r\n\r\n"
SUBMIT = (
    b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n"
)
STREAM = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(client: Client) -> AsyncIterator[Connection]:
    parts = urlsplit(client.address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def exchange(client: Client, sent: bytes) -> bytes:
    """Send bytes on a new connection, and return all that the server sends until it closes."""
    async with connected(client) as (reader, writer), asyncio.timeout(BOUND_S):
        writer.write(sent)
        await writer.drain()
        return await reader.read()


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in STATUS.findall(received)]


@pytest.mark.proves("R1.11")
async def test_pipelined_requests_are_answered_in_order(client: Client) -> None:
    received = await exchange(client, (HEALTH + UNKNOWN) * 500 + LAST)
    assert statuses(received) == [200, 404] * 500 + [200]


@pytest.mark.proves("S6")
async def test_garbage_after_pipelined_requests_is_answered_last(client: Client) -> None:
    received = await exchange(client, HEALTH + UNKNOWN + b"GARBAGE\r\n\r\n")
    assert statuses(received) == [200, 404, 400]


@pytest.mark.proves("S6")
async def test_invalid_body_of_a_pipelined_request_is_answered_in_its_turn(client: Client) -> None:
    received = await exchange(client, HEALTH + UNKNOWN + SUBMIT + b"\r\nzz\r\n")
    assert statuses(received) == [200, 404, 400]


@pytest.mark.proves("I16")
async def test_disconnect_ends_a_stream_that_has_a_pipelined_request_behind_it(
    client: Client,
) -> None:
    async with connected(client) as (reader, writer), asyncio.timeout(BOUND_S):
        writer.write(STREAM + HEALTH)
        await reader.readuntil(b"\r\n\r\n")
        while await stream_count(client) != 1:
            pass
        writer.transport.abort()
        while await stream_count(client):
            # The server does not read now, so it detects the lost client when it writes an event.
            await client.submit("echo")


async def stream_count(client: Client) -> int:
    text = (await client.get("/metrics")).body
    found = re.search(r"^headway_event_streams(?:\{.*\})? (\d+)", text, re.MULTILINE)
    assert found, text
    return int(float(found[1]))


@pytest.mark.proves("S6")
@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * (65 << 10) + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * (30 << 10) + b"\r\n",
        SUBMIT + b"\r\n2;" + b"a" * (70 << 10),
        SUBMIT + b"\r\n2\r\n{}\r\n0\r\nX: " + b"a" * (70 << 10),
        SUBMIT + b"\r\n2\r\n{}\r\n0\r\n" + b"X: a\r\n" * (30 << 10),
    ],
    ids=["header", "headers", "chunk extension", "trailer", "trailers"],
)
async def test_data_around_a_body_is_limited(client: Client, sent: bytes) -> None:
    received = await exchange(client, sent)
    assert statuses(received) == [431]


@pytest.mark.proves("S6")
async def test_large_body_that_arrives_with_its_headers_is_accepted(client: Client) -> None:
    body = json.dumps({"job": "echo", "params": {"said": "a" * (200 << 10)}}).encode()
    head = b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    sent = head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body + LAST
    assert statuses(await exchange(client, sent)) == [201, 200]


@pytest.mark.proves("I6", "S6")
async def test_trailers_do_not_become_headers(client: Client) -> None:
    """The guard checks the headers before the body arrives, so it would not see these."""
    body = b'{"job": "echo", "params": {"said": "a"}}'
    chunk = f"\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\nIdempotency-Key: trailer\r\n\r\n"
    received = await exchange(client, (SUBMIT + chunk) * 2 + LAST)
    assert statuses(received) == [201, 201, 200]
    assert len(set(re.findall(rb"location: (\S+)", received))) == 2


@pytest.mark.proves("R1.11")
@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
async def test_upgrade_is_declined_and_the_connection_stays_usable(
    client: Client, protocol: bytes
) -> None:
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: "
    received = await exchange(client, upgrade + protocol + b"\r\n\r\n" + UNKNOWN + LAST)
    assert statuses(received) == [200, 404, 200]


@pytest.mark.proves("S6")
@pytest.mark.parametrize("target", [b"\xff", b"*", b"//", b"http://"])
async def test_strange_target_is_refused_or_not_found(client: Client, target: bytes) -> None:
    received = await exchange(
        client, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert statuses(received) in ([400], [404])
    assert b"application/problem+json" in received
