"""Abusive clients receive a 4xx or a closed connection, and no other client is affected."""

import asyncio
import json
import resource
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from headway.api.http import body
from headway.process.dedicated import (
    OPEN_FILE_COUNT_MAX,
    open_file_count_max,
    raise_open_file_limit,
)
from tests.api.client import LINE_BYTE_COUNT_MAX, Client
from tests.api.program import Program, served_in_subprocess
from tests.api.stalled import stalled_streams, unread_byte_count

pytestmark = pytest.mark.backend("sqlite")

IDLE_COUNT = 2_000
STALLED_COUNT = 50
BODY_COUNT = 20
MIB = 1 << 20


async def send_raw(address: str, *parts: bytes) -> bytes:
    """Send these bytes, and return the first line of the answer or of what came before a close."""
    address_parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(address_parts.hostname, address_parts.port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await reader.readline()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def parse_status(line: bytes) -> int | None:
    """Return None if the server closed the connection without an answer."""
    return int(line.split()[1]) if line else None


def request(*headers: str, first: str = "POST /api/runs HTTP/1.1") -> bytes:
    return "\r\n".join((first, *headers, "", "")).encode()


HOST = "Host: 127.0.0.1"
JSON = "Content-Type: application/json"
CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"


@pytest.mark.proves("I20")
@pytest.mark.parametrize(
    "parts",
    [
        (request(HOST, JSON, "Content-Length: 99999999999999"),),
        (request(HOST, JSON, "Content-Length: -1"),),
        (request(HOST, JSON, "Content-Length: 2", "Content-Length: 3"), b"{}"),
        (request(HOST, JSON, "Content-Length: 2", "Transfer-Encoding: chunked"), b"{}"),
        (request(HOST, JSON, "Transfer-Encoding: chunked"), *([CHUNK] * 20)),
        (request(HOST, JSON, "Transfer-Encoding: chunked"), b"zz\r\n"),
        (request(HOST, "Host: evil.example", first="GET /api/lanes HTTP/1.1"),),
        (request(first="GET /api/lanes HTTP/1.1"),),
        (request(HOST, "X: " + "x" * 100_000, first="GET /api/lanes HTTP/1.1"),),
        (request(HOST, *(f"X-{n}: 1" for n in range(20_000)), first="GET / HTTP/1.1"),),
        (request(HOST, first="GET /" + "a" * 100_000 + " HTTP/1.1"),),
        (request(HOST, "X: a\x00b", first="GET /api/lanes HTTP/1.1"),),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",),
        (b"GARBAGE\r\n\r\n",),
    ],
    ids=[
        "huge", "negative", "two_lengths", "length_and_chunked", "chunked_and_huge", "bad_chunk",
        "two_hosts", "no_host", "long_header", "many_headers", "long_path", "nul", "tls", "garbage",
    ],
)  # fmt: skip
async def test_malformed_request_gets_a_4xx_or_a_closed_connection(
    client: Client, parts: tuple[bytes, ...]
) -> None:
    status = parse_status(await send_raw(client.address, *parts))
    assert status is None or (400 <= status < 500 and status != 408), status
    assert (await client.get("/api/runs"))["runs"] == []


@pytest.mark.proves("I20")
async def test_request_times_out_when_its_body_does_not_arrive(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "BODY_S_MAX", 0.2)
    line = await send_raw(client.address, request(HOST, JSON, "Content-Length: 1000"), b'{"job')
    assert parse_status(line) == 408
    assert (await client.get("/api/lanes")).status == 200


ANSWERED = (200, 204, 307, 400, 405)
"""Answers that do not need the body: a refusal, no such call, or an unchanged page."""


@pytest.mark.proves("I20")
@pytest.mark.parametrize("path", ["/api/session", "/healthz", "/readyz", "/ui/", "/"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_paths_without_authentication_do_not_read_large_bodies(
    client: Client, method: str, path: str
) -> None:
    """This also holds for signing in. Every other path answers before the body arrives."""
    is_sign_in = (method, path) == ("POST", "/api/session")
    for length in (*(() if is_sign_in else (2,)), 4_097, 1_000_000):
        first = f"{method} {path} HTTP/1.1"
        head = request(HOST, JSON, f"Content-Length: {length}", first=first)
        status = parse_status(await send_raw(client.address, head))
        assert status == 413 if is_sign_in else status in ANSWERED
    head = request(HOST, JSON, "Transfer-Encoding: chunked", first=f"{method} {path} HTTP/1.1")
    assert parse_status(await send_raw(client.address, head, CHUNK)) in (413, *ANSWERED)


@pytest.mark.proves("I20")
async def test_paths_without_authentication_refuse_a_body_with_a_reason(client: Client) -> None:
    answer = await client.call("DELETE", "/api/session", {})
    assert (answer.status, answer["detail"]) == (400, "this call accepts no body")
    answer = await client.post("/api/session", {"token": "x" * 5_000})
    assert (answer.status, answer["detail"]) == (
        413,
        "the body is too large; the limit is 4,096 bytes",
    )


@pytest.mark.proves("I15")
async def test_get_with_a_body_is_refused(client: Client) -> None:
    answer = await client.call("GET", "/api/runs", {"status": "running"})
    assert (answer.status, answer["code"]) == (400, "bad_request")


@pytest.mark.proves("I20")
async def test_memory_for_all_bodies_together_is_limited(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "HELD_BYTE_COUNT_MAX", 1_000)
    address_parts = urlsplit(client.address)
    _, writer = await asyncio.open_connection(address_parts.hostname, address_parts.port)
    writer.write(request(HOST, JSON, "Content-Length: 1000") + b" " * 900)
    large = {"job": "echo", "params": {"said": "x" * 200}}
    async with asyncio.timeout(30):
        while (answer := await client.post("/api/runs", large)).status == 201:
            pass  # Until the other body has arrived.
        assert (answer.status, answer["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"]
        assert (await client.post("/api/runs", {"job": "echo"})).status == 201
        writer.close()
        while (await client.post("/api/runs", large)).status == 503:
            pass  # Until the server has noticed the closed connection.


@pytest.mark.proves("I20")
async def test_memory_of_a_body_is_released_after_the_answer(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory is released for every answer, also if the client has disconnected."""
    monkeypatch.setattr(body, "HELD_BYTE_COUNT_MAX", 1_000)
    monkeypatch.setattr(body, "BODY_S_MAX", 0.1)
    body_fields = {"params": {"said": "x" * 800}}
    for _ in range(3):
        assert (await client.post("/api/runs", {"job": "echo", **body_fields})).status == 201
        assert (await client.post("/api/runs", {"job": 1, **body_fields})).status == 422
        assert (await client.post("/api/nope", body_fields)).status == 404
        late = request(HOST, JSON, "Content-Length: 999"), b" " * 900
        assert parse_status(await send_raw(client.address, *late)) == 408


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with served_in_subprocess(tmp_path) as program:
        yield program


@pytest.fixture
async def session(program: Program) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(program.address, read_bufsize=LINE_BYTE_COUNT_MAX) as session:
        yield session


async def submit(session: aiohttp.ClientSession, **params: Any) -> None:
    async with session.post("/api/runs", json={"job": "echo", "params": params}) as answer:
        assert answer.status == 201, await answer.text()


@pytest.mark.proves("I20")
@pytest.mark.slow
@pytest.mark.parametrize("limit", ["-S 1024", "1024"], ids=["usual", "hard"])
async def test_thousands_of_idle_connections_cost_little_and_block_no_client(
    tmp_path: Path, limit: str
) -> None:
    """This also holds with a limit of 1,024 open files. Each call opens a new connection."""
    raise_open_file_limit()
    assert open_file_count_max() >= 2 * IDLE_COUNT
    within = ("sh", "-c", f'ulimit -n {limit} && exec "$@"', "sh")
    with served_in_subprocess(tmp_path, within=within) as program:
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(program.address, connector=connector) as session:
            await submit(session)
            before = program.resident_byte_count()
            address_parts = urlsplit(program.address)
            idle = []
            for number in range(IDLE_COUNT):
                idle.append(
                    await asyncio.open_connection(address_parts.hostname, address_parts.port)
                )
                if number % 100 == 0:
                    await submit(session, said=number)
            for number in range(20):
                await submit(session, said=number)
            async with session.get("/readyz") as answer:
                assert answer.status == 200
            assert program.resident_byte_count() - before < 100 * MIB
            for _, writer in idle:
                writer.close()


@pytest.mark.proves("I20")
async def test_bodies_without_a_token_do_not_increase_server_memory(tmp_path: Path) -> None:
    """Send all but the last byte of many large bodies to every path that needs no token."""
    heads = [
        request(HOST, JSON, f"Content-Length: {MIB}", first=f"POST {path} HTTP/1.1")
        for path in ("/api/session", "/healthz", "/ui/", "/api/runs")
    ]
    with served_in_subprocess(tmp_path, HEADWAY_TOKEN="t0ken-of-sixteen") as program:
        address_parts = urlsplit(program.address)
        assert parse_status(await send_raw(program.address, heads[0])) == 413
        before = program.resident_byte_count()
        async with AsyncExitStack() as stack:
            for head in heads * BODY_COUNT:
                reader, writer = await asyncio.open_connection(
                    address_parts.hostname, address_parts.port
                )
                stack.callback(writer.close)
                with suppress(ConnectionError):
                    writer.write(head + b" " * (MIB - 1))
                    await writer.drain()
                    assert parse_status(await reader.readline()) in (413, 405, 401)
            held = program.resident_byte_count() - before
        assert held < len(heads) * BODY_COUNT * MIB / 4


@pytest.mark.proves("I20")
@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux shows the limits of another process"
)
def test_server_raises_its_open_file_limit_to_the_maximum(tmp_path: Path) -> None:
    within = ("sh", "-c", 'ulimit -S -n 1024 && exec "$@"', "sh")
    with served_in_subprocess(tmp_path, within=within) as program:
        soft, hard = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)
        assert soft == min(hard, OPEN_FILE_COUNT_MAX) > 1_024


@pytest.mark.proves("I16")
@pytest.mark.slow
async def test_clients_that_stop_reading_cost_little_and_slow_no_other_client(
    program: Program, session: aiohttp.ClientSession
) -> None:
    await shout(session)  # Fill the buffer that all streams share before measuring.
    last = await _last_seq(session)
    base = program.resident_byte_count()
    async with stalled_streams(program.address, STALLED_COUNT, after=last) as stalled:
        shouting = asyncio.create_task(shout(session))
        byte_count, peak = await _read_all(program, session, last, shouting)
        # They are really blocked: the server could not pass most of it to the system.
        assert all(0 < unread_byte_count(connection) < byte_count / 2 for connection in stalled)
    assert peak - base < STALLED_COUNT * 1.5 * MIB


async def _read_all(
    program: Program,
    session: aiohttp.ClientSession,
    last: int,
    shouting: "asyncio.Task[None]",
) -> tuple[int, int]:
    """Read every event after `last` once; return the byte count and the peak memory use."""
    seen, byte_count, peak, upto = last - 1, 0, 0, last
    headers = {"accept": "text/event-stream"}
    async with session.get(f"/api/events?after={last}", headers=headers) as answer:
        while not shouting.done() or seen < upto:
            block = await answer.content.readuntil(b"\n\n")
            byte_count += len(block)
            if block.startswith(b": ping"):
                continue
            assert int(block.partition(b"id: ")[2].partition(b"-")[0]) == seen + 1
            seen += 1
            peak = max(peak, program.resident_byte_count())
            upto = await _last_seq(session) if shouting.done() else upto
    return byte_count, peak


async def shout(session: aiohttp.ClientSession) -> None:
    """Start three runs that log lines of 100 KB, and wait until they have ended."""
    body = {"job": "shout", "params": {"count": 120, "length": 100_000}}
    run_ids = []
    for _ in range(3):
        async with session.post("/api/runs", json=body) as answer:
            run_ids.append((await answer.json())["id"])
    for run_id in run_ids:
        while (await _run(session, run_id))["ended_at"] is None:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _run(session: aiohttp.ClientSession, run_id: str) -> Any:
    async with session.get(f"/api/runs/{run_id}") as answer:
        return await answer.json()


async def _last_seq(session: aiohttp.ClientSession) -> int:
    async with session.get("/api/state") as answer:
        return int(json.loads(await answer.text())["seq"])
