"""`engines`: three engines work on one database while they are killed and paused by turns.

A pause is longer than a lease: the others take the work, and the engine that wakes must release it.
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.bootstrap import SystemClock, open_readers
from headway.core.command.admin.lane_limits import SetLane
from headway.core.command.run.submit import Submit
from headway.core.doctor.finding import Severity
from headway.core.errors import InboxOverflow, InterruptNotOpen, RunNotActive
from headway.core.ids import Key, LaneName, RunId
from headway.core.run.events import EventType
from headway.core.run.status import RunStatus
from headway.core.run.transitions import ACTIVE
from headway.ports.run_reader import RunFilter
from headway.services.engine.engine import SWEEP_S
from headway.services.submit.run_handle import RunHandle
from headway.services.submit.run_watcher import RunWatcher
from headway.services.upkeep.examination import DoctorProgress, examine
from tests.torture.at_work import AtWork, Pause
from tests.torture.authority import POISON, Authority
from tests.torture.claims import Size, Step, seq_of, until_quiet
from tests.torture.crowd import Crowd, crowd
from tests.torture.engine import DEADLY, LANES, EngineLoad
from tests.torture.ledger import read_ledgers
from tests.torture.replay import PAGE_COUNT, Findings, replay, stream_of

PROCESS_COUNT: Final = 3
KEY_COUNT: Final = 200
TTL_S: Final = 2.0
HEARTBEAT_S: Final = TTL_S / 3
PAUSE_S: Final = (TTL_S + SWEEP_S, TTL_S + SWEEP_S + 1.0)
MOVES_BETWEEN_KILLS: Final = 100
MOVES_BETWEEN_PAUSES: Final = 150
WRITE_S_MAX: Final = 1.0
"""A write that takes longer waits for a process that was paused inside a transaction."""
STILL_S_MAX: Final = 60.0
GRACE_S: Final = 3.0
LANE_LIMITS: Final = {LaneName(name): limit for name, limit in LANES.items()}


async def engines(
    urls: Sequence[str], size: Size, step: Step, *, redis_url: str | None = None
) -> Findings:
    """Load the database with engines, inject as many faults as requested, and check the result."""
    store = await open_store(urls)
    try:
        for name, limit in LANE_LIMITS.items():
            await store.apply(SetLane(name=name, max_concurrent=limit))
        with tempfile.TemporaryDirectory(prefix="headway-ledgers-") as folder:
            torment = Torment(store, size, step, redis_url)
            await torment.run(urls, folder)
            findings = await judge(store, Path(folder), torment)
        findings.faults += await _examined(urls)
    finally:
        await store.close()
    return findings


class Torment:
    """Injects faults into the engines, and records observations."""

    def __init__(
        self, store: SqlStore, size: Size, step: Step, redis_url: str | None = None
    ) -> None:
        self._store = store
        self._redis_url = redis_url
        self.size = size
        self._step = step
        self._done_count = 0
        self.pauses: list[Pause] = []
        self.killed_pids: set[int] = set()
        self.pauses_in_a_write = 0
        self.leaked = 0
        self.canceled: set[RunId] = set()
        """Runs whose cancel was answered with: already ended."""
        self.faults: list[str] = []

    async def run(self, urls: Sequence[str], folder: str) -> None:
        load = EngineLoad(
            urls=list(urls),
            folder=folder,
            key_count=self.size.key_count,
            backlog_count=self.size.run_count,
            ttl_s=TTL_S,
            redis_url=self._redis_url,
        )
        with crowd(load, self.size.process_count) as them:
            async with asyncio.TaskGroup() as group:
                people = [
                    group.create_task(self._cancel_some()),
                    group.create_task(self._answer_some()),
                ]
                await asyncio.gather(self._kill(them), self._pause(them), self._poison(them))
                them.drain()
                await until_quiet(self._store, them, self.size, self._step)
                await self._until_buried(them)
                for task in people:
                    task.cancel()
        self.faults += them.faults
        self.leaked += len(await self._store.runs.instances())

    async def _kill(self, them: Crowd) -> None:
        for _ in range(self.size.kill_count):
            await self._moved(them, MOVES_BETWEEN_KILLS)
            await asyncio.sleep(random.uniform(0, 0.5))
            place = random.randrange(self.size.process_count)
            self.killed_pids.add(them.kill(place, among=await self._working_pids()))
            self._count()

    async def _working_pids(self) -> set[int]:
        """Return the processes that hold runs. A single one may hold them all."""
        return {
            instance.pid
            for instance in await self._store.runs.instances()
            if await self._store.runs.held_runs(instance.id, limit=1)
        }

    async def _poison(self, them: Crowd) -> None:
        """Submit runs that kill every process that executes them, one after the other."""
        for number in range(self.size.deadly_count):
            key, run_id = Key(f"deadly-{number}"), RunId(f"deadly-{number}")
            await self._store.apply(
                Submit(run_id=run_id, key=key, job=DEADLY, lane=LaneName("quick"))
            )
            give_up_at_s = time.monotonic() + STILL_S_MAX
            while (record := await self._store.runs.run(run_id)) is None or record.run.is_active:
                if time.monotonic() > give_up_at_s:
                    self.faults.append(f"{run_id} has not ended within {STILL_S_MAX:g} s")
                    return
                them.check()
                await asyncio.sleep(0.05)
            if json.loads(record.error or "{}").get("code") != POISON:
                self.faults.append(f"{run_id} ended as {record.run.status}, not as poison")

    async def _pause(self, them: Crowd) -> None:
        for _ in range(self.size.pause_count):
            await self._moved(them, MOVES_BETWEEN_PAUSES)
            await asyncio.sleep(random.uniform(0, 0.5))
            pid = them.pause(random.randrange(self.size.process_count))
            from_ns = time.monotonic_ns()
            writing = asyncio.ensure_future(self._write())
            try:
                _, held_up = await asyncio.wait([writing], timeout=WRITE_S_MAX)
                self.pauses_in_a_write += len(held_up)
                pause_s = random.uniform(*PAUSE_S) - (time.monotonic_ns() - from_ns) / 1e9
                await asyncio.sleep(pause_s)
            finally:
                self.pauses.append(Pause(pid, from_ns, time.monotonic_ns()))
                them.wake(pid)
            await writing
            await asyncio.sleep(2 * HEARTBEAT_S)  # Killing it at once would prove nothing.
            them.spare_no_more(pid)
            self._count()

    async def _write(self) -> None:
        """Write something that changes nothing."""
        (name, limit), *_ = LANE_LIMITS.items()
        await self._store.apply(SetLane(name=name, max_concurrent=limit))

    def _count(self) -> None:
        self._done_count += 1
        self._step(self._done_count)

    async def _moved(self, them: Crowd, count: int) -> None:
        """Wait until work is in flight: killing processes that only start up proves nothing."""
        wanted_seq = await seq_of(self._store) + count
        give_up_at_s = time.monotonic() + STILL_S_MAX
        while await seq_of(self._store) < wanted_seq:
            if time.monotonic() > give_up_at_s:
                self.faults.append(f"next to nothing moved for {STILL_S_MAX:g} s")
                return
            them.check()
            await asyncio.sleep(0.05)

    async def _until_buried(self, them: Crowd) -> None:
        """Wait until dead processes are removed: a lease and a sweep (I8), doubled for slow
        machines.
        """
        give_up_at_s = time.monotonic() + 2 * (TTL_S + SWEEP_S)
        while len(await self._store.runs.instances()) > them.count:
            if time.monotonic() > give_up_at_s:
                self.leaked += len(await self._store.runs.instances()) - them.count
                return
            await asyncio.sleep(0.1)

    # Actions of people.

    async def _cancel_some(self) -> None:
        while True:  # Ends by cancellation only.
            await asyncio.sleep(random.uniform(0, 0.5))
            wanted = RunFilter(statuses=frozenset({random.choice(sorted(ACTIVE))}))
            records = [one async for one in self._store.runs.list_runs(wanted, limit=100)]
            if others := [one.run.id for one in records if one.run.job != DEADLY]:
                run_id = random.choice(others)
                if await self._handle(run_id).cancel(grace_s=GRACE_S) == "canceled":
                    self.canceled.add(run_id)

    async def _answer_some(self) -> None:
        after_seq = 0
        while True:  # Ends by cancellation only.
            page = await self._store.events.events(after_seq=after_seq, limit=PAGE_COUNT)
            for event in page.events:
                after_seq = event.seq
                if event.type == EventType.PERMISSION_REQUEST and random.random() < 0.5:
                    assert event.run_id is not None
                    call_id = json.loads(event.payload)["call_id"]
                    try:
                        await self._handle(event.run_id).answer(call_id, random.random())
                    except (RunNotActive, InterruptNotOpen, InboxOverflow):
                        continue
            await asyncio.sleep(0.2)

    def _handle(self, run_id: RunId) -> RunHandle:
        store = self._store
        news = RunWatcher(store, store.runs)  # No caller waits for the end of any.
        return RunHandle(run_id, store=store, runs=store.runs, events=store.events, watcher=news)


async def judge(store: SqlStore, folder: Path, torment: Torment) -> Findings:
    findings = await replay(store, folder, lane_limits=LANE_LIMITS, anyone_was_killed=True)
    authority = Authority(findings)
    async for event in stream_of(store):
        authority.take(event)
    await _check_records(store, authority, torment.canceled)
    at_work = AtWork(
        lines=read_ledgers(folder),
        pauses=torment.pauses,
        heartbeat_ns=round(HEARTBEAT_S * 1e9),
        epoch_ns=time.time_ns() - time.monotonic_ns(),
    )
    at_work.check_claims(authority, findings)
    at_work.check_crowding(LANE_LIMITS, findings)
    findings.overtaken = at_work.count_overtaken(authority)
    findings.kills_in_flight = at_work.count_in_flight(torment.killed_pids)
    findings.faults += check_effort(findings, torment.size)
    findings.pauses_in_a_write = torment.pauses_in_a_write
    findings.leaked += torment.leaked
    findings.leaked += sum(view.held_count for view in await store.runs.lanes())
    findings.faults += torment.faults
    return findings


def check_effort(findings: Findings, size: Size) -> list[str]:
    """Return reasons why the torture was too gentle to prove anything."""
    faults = []
    if findings.kills_in_flight * 2 < size.kill_count:
        faults.append(f"only {findings.kills_in_flight} of {size.kill_count} kills hit a run")
    if findings.poisoned < size.deadly_count:
        faults.append(f"only {findings.poisoned} of {size.deadly_count} deadly runs were poison")
    return faults


async def _check_records(store: SqlStore, authority: Authority, canceled: set[RunId]) -> None:
    async for record in store.runs.list_runs(RunFilter(), limit=sys.maxsize):
        authority.check_result(record)
        if record.run.id in canceled and record.run.status is not RunStatus.CANCELED:
            authority.findings.lost += 1  # The cancel was.


async def _examined(urls: Sequence[str]) -> list[str]:
    """Return the findings of the doctor."""
    async with open_readers(urls) as readers:
        return [
            f"doctor: {finding.promise}, {finding.subject}: {finding.sentence}"
            async for finding in examine(
                readers.doctor, SystemClock(), DoctorProgress(), lambda: None
            )
            if finding.severity is Severity.VIOLATION
        ]
