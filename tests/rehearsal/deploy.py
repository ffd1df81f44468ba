"""A rolling deploy under load: two servers on one database are restarted by SIGTERM in turn.

Meanwhile clients submit runs, answer interrupts and follow the event stream. Afterwards the
responses that they received and the ledger of the jobs are compared with the database.
"""

import asyncio
import itertools
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.api.client import Answer, Client, ServerEvent
from tests.cli.command import environment
from tests.rehearsal.jobs import hw
from tests.servers.process import free_port

ROOT: Final = Path(__file__).parents[2]
READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 60.0
QUIET_S_MAX: Final = 120.0
RETRY_S: Final = 0.05
AGENT_COUNT: Final = 6
SLEEPER_COUNT: Final = 4
TASK_COUNT: Final = 3
RUNS_BETWEEN_RESTARTS: Final = 6
FLOW: Final = {
    "start": "credit",
    "nodes": {
        name: {
            "kind": "executor",
            "service": name,
            "prep": {"input_key": "$params.order"},
            "post": {"output_key": name},
        }
        for name in ("credit", "ship")
    },
    "edges": [{"from": "credit", "to": "ship"}],
}


class Server:
    """A `headway serve` process with its own port, which it keeps across restarts."""

    def __init__(self, folder: Path, name: str, settings: dict[str, str]) -> None:
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._settings = settings
        self._port = free_port()
        self.address = f"http://127.0.0.1:{self._port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        arguments = ("serve", "--app", "tests.rehearsal.jobs:hw", "--port", str(self._port))
        with self._log.open("a") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "headway", *arguments),
                cwd=self._folder,
                env=environment(**self._settings),
                stderr=log,
            )
        async with asyncio.timeout(READY_S_MAX), aiohttp.ClientSession(self.address) as session:
            while not await _is_ready(session):
                assert self._process.returncode is None, self._log.read_text()
                await asyncio.sleep(RETRY_S)

    async def stop(self) -> None:
        """Stop the process by SIGTERM. The exit code must be 0."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_S_MAX):
            code = await process.wait()
        assert code == 0, (code, self._log.read_text()[-4_000:])

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


async def _is_ready(session: aiohttp.ClientSession) -> bool:
    try:
        async with session.get("/readyz") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


@dataclass(slots=True)
class Seen:
    """The responses and events that the clients received."""

    accepted: dict[str, str] = field(default_factory=dict)
    """The job of each run that was accepted with a 2xx, by run id."""
    answers: dict[str, Any] = field(default_factory=dict)
    """The interrupt answer that was accepted with a 2xx, by run id."""
    tasks: list[str] = field(default_factory=list)
    streams: list[list[ServerEvent]] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    """Runs whose end the first stream has reported."""
    has_moved: asyncio.Event = field(default_factory=asyncio.Event)


class Rehearsal:
    def __init__(self, servers: list[Server]) -> None:
        self.servers = servers
        self.seen = Seen()
        self._numbers = itertools.count()

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Try one server after the other until one responds, as a load balancer would."""
        async with asyncio.timeout(QUIET_S_MAX):
            for server in itertools.cycle(self.servers):
                try:
                    async with Client(server.address, hw) as client:
                        response = await client.call(method, path, body, **headers)
                except aiohttp.ClientError:
                    await asyncio.sleep(RETRY_S)
                    continue
                if response.status not in (429, 503):
                    return response
                await asyncio.sleep(RETRY_S)
        raise AssertionError

    async def submit(self, job: str, **body: Any) -> str:
        number = next(self._numbers)
        response = await self.call(
            "POST",
            "/api/runs",
            {"job": job, "key": f"{job}-{number}", **body},
            idempotency_key=f"rehearsal-{number}",
        )
        assert response.status in (200, 201), response
        run_id: str = response["id"]
        self.seen.accepted[run_id] = job
        return run_id

    async def submit_work(self) -> None:
        for number in itertools.count():  # Ends by cancellation only.
            await self.submit("work", params={"number": number})
            await asyncio.sleep(RETRY_S)

    async def start_tasks(self) -> None:
        response = await self.call("PUT", "/api/flows/orders", FLOW)
        assert response.status in (200, 201), response
        for number in range(TASK_COUNT):
            body = {"params": {"order": f"order-{number}"}}
            task = await self.call(
                "POST", "/api/flows/orders/tasks", body, idempotency_key=f"task-{number}"
            )
            assert task.status in (200, 201), task
            self.seen.tasks.append(task["id"])

    async def open_interrupts(self) -> dict[str, str]:
        response = await self.call("GET", "/api/interrupts")
        return {item["run_id"]: item["call_id"] for item in response["interrupts"]}

    async def answer(self, run_id: str, call_id: str) -> None:
        """Answer an interrupt; only the first answer with a 2xx counts."""
        answer = {"approved": True, "note": f"for {run_id}"}
        response = await self.call(
            "POST", f"/api/runs/{run_id}/resume", {"call_id": call_id, **answer}
        )
        assert response.status in (200, 409), response
        self.seen.answers[run_id] = answer

    async def follow(self, server: Server) -> None:
        """Follow the stream of one server across its restarts, with the last event id."""
        stream: list[ServerEvent] = []
        is_first = not self.seen.streams
        self.seen.streams.append(stream)
        last_id = "0"
        while True:  # Ends by cancellation only.
            try:
                async with (
                    Client(server.address, hw) as client,
                    client.open_stream("/api/events", last_event_id=last_id) as events,
                ):
                    async for event in events:
                        if event.id is None:
                            continue
                        last_id = event.id
                        stream.append(event)
                        if is_first:
                            self._note_end(event)
            except (aiohttp.ClientError, AssertionError):  # The server is being restarted.
                await asyncio.sleep(RETRY_S)

    def _note_end(self, event: ServerEvent) -> None:
        payload = event.data.get("payload") or {}
        if event.event == "run_state_changed" and payload.get("to") in ("succeeded", "failed"):
            self.seen.ended.add(event.data["run_id"])
            self.seen.has_moved.set()

    async def wait_until(self, is_true: Callable[[], bool]) -> None:
        """Wait until the event stream shows a state."""
        async with asyncio.timeout(QUIET_S_MAX):
            while not is_true():
                self.seen.has_moved.clear()
                if not is_true():
                    await self.seen.has_moved.wait()

    async def restart_in_turn(self, times: int) -> None:
        for _ in range(times):
            for server in self.servers:
                await server.stop()
                await server.start()
                await self.wait_for_ends(len(self.seen.ended) + RUNS_BETWEEN_RESTARTS)
                await self.answer_one()

    async def wait_for_ends(self, count: int) -> None:
        await self.wait_until(lambda: len(self.seen.ended) >= count)

    async def answer_one(self) -> None:
        """Answer one open interrupt; half of them stay open to the end."""
        if len(self.seen.answers) < AGENT_COUNT // 2:
            for run_id, call_id in (await self.open_interrupts()).items():
                if run_id not in self.seen.answers and self.seen.accepted.get(run_id) == "agent":
                    await self.answer(run_id, call_id)
                    return


@asynccontextmanager
async def running(*tasks: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the coroutines until the block ends. Raise an error of any of them."""
    async with asyncio.TaskGroup() as group:
        started = [group.create_task(coroutine) for coroutine in tasks]
        yield
        for task in started:
            task.cancel()


@asynccontextmanager
async def worker(folder: Path, server: Server, settings: dict[str, str]) -> AsyncIterator[None]:
    """Run `headway worker` with the services of the flow."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headway", "worker", "tests.rehearsal.jobs:services"),
        cwd=folder,
        env=environment(
            **settings, REGISTRY_URL=server.address, WORKER_URL=f"http://127.0.0.1:{free_port()}"
        ),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def rehearse(url: str, folder: Path, *, restart_count: int) -> "Outcome":
    ledger = folder / "ledger"
    ledger.touch()
    settings = {
        "HEADWAY_DATABASE_URL": url,
        "REHEARSAL_LEDGER": str(ledger),
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    }
    servers = [Server(folder, name, settings) for name in ("first", "second")]
    rehearsal = Rehearsal(servers)
    try:
        for server in servers:
            await server.start()
        async with running(*(rehearsal.follow(server) for server in servers)):
            for job, count in (("agent", AGENT_COUNT), ("sleeper", SLEEPER_COUNT)):
                for _ in range(count):
                    await rehearsal.submit(job)
            await rehearsal.start_tasks()
            async with running(rehearsal.submit_work()):
                await rehearsal.restart_in_turn(restart_count)
            outcome = await _finish(rehearsal, folder, settings)
        for server in servers:
            await server.stop()
    finally:
        for server in servers:
            server.kill()
    outcome.ledger = ledger.read_text().splitlines()
    return outcome


async def _finish(rehearsal: Rehearsal, folder: Path, settings: dict[str, str]) -> "Outcome":
    """Answer the open interrupts, start the worker, and wait until all runs have ended."""
    seen = rehearsal.seen
    open_at_the_end = await rehearsal.open_interrupts()
    for run_id, call_id in open_at_the_end.items():
        await rehearsal.answer(run_id, call_id)
    async with worker(folder, rehearsal.servers[0], settings):
        await rehearsal.wait_until(lambda: seen.ended >= {*seen.accepted, *seen.tasks})
    records = {
        run_id: (await rehearsal.call("GET", f"/api/runs/{run_id}")).body
        for run_id in (*seen.accepted, *seen.tasks)
    }
    last_seq = (await rehearsal.call("GET", "/api/state"))["seq"]
    async with asyncio.timeout(QUIET_S_MAX):
        while any(stream[-1].data["seq"] < last_seq for stream in seen.streams):  # noqa: ASYNC110
            await asyncio.sleep(RETRY_S)
    return Outcome(seen, records, open_at_the_end, last_seq)


@dataclass(slots=True)
class Outcome:
    seen: Seen
    records: dict[str, Any]
    open_at_the_end: dict[str, str]
    last_seq: int
    ledger: list[str] = field(default_factory=list)

    def ledger_lines(self, kind: str) -> list[list[str]]:
        lines = (line.split(" ", 2) for line in self.ledger)
        return [fields for line_kind, *fields in lines if line_kind == kind]

    def events(self, kind: str) -> list[Any]:
        return [event.data for event in self.seen.streams[0] if event.event == kind]

    def claims(self) -> dict[str, Counter[int]]:
        """Return how often the stream reported each claim of a run, by generation."""
        counts: dict[str, Counter[int]] = defaultdict(Counter)
        for event in self.events("run_state_changed"):
            if event["payload"].get("to") == "running":
                counts[event["run_id"]][1] += 1
        for event in self.events("run_resumed"):
            counts[event["run_id"]][event["payload"]["generation"]] += 1
        return counts
