"""`steering`: runs on three instances are steered from a fourth while Redis breaks in all ways.

Every accepted message must arrive once: the job receives the answer, messages arrive in order, and
a cancelled run ends as canceled. A run that was steered during an outage must wake within two
seconds of its end.
"""

import asyncio
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from typing import Any, Final
from uuid import uuid4

from headway import Headway, RunHandle
from headway.core.command.admin.lane_limits import SetLane
from headway.core.command.run.submit import Submit
from headway.core.errors import InterruptNotOpen, MessageRefused
from headway.core.ids import MAIN_LANE, Instant, Key, RunId
from headway.core.run.events import EventType
from headway.core.run.status import RunStatus
from tests.servers import start_redis, start_redis_cluster
from tests.torture.claims import Size, Step
from tests.torture.crowd import Crowd, crowd
from tests.torture.engines import engines
from tests.torture.redis_faults import (
    FAULTS,
    break_server,
    cluster_url,
    fail_over_cluster,
)
from tests.torture.replay import Findings, stream_of
from tests.torture.steered import MESSAGE_COUNT, SteeredLoad

TTL_S: Final = 3.0
TALK_COUNT: Final = 12
PAUSE_S_MAX: Final = 1.0
WAKE_MS_MAX: Final = 2_000
END_S_MAX: Final = 60.0
"""A steered run that has not ended after this time never received the message, or never started."""
TALKS_BETWEEN: Final = 4


@dataclass
class Talk:
    """Steers runs and records the results."""

    hw: Headway
    findings: Findings = field(default_factory=Findings)
    outages: list[tuple[Instant, Instant]] = field(default_factory=list)
    is_enough: bool = False
    talk_count: int = 0

    async def talk(self) -> None:
        for kind in cycle(("asking", "hearing", "hanging")):
            if self.is_enough:
                return
            try:
                async with asyncio.timeout(END_S_MAX):
                    await self._talk_once(kind)
            except TimeoutError:
                self.findings.lost += 1
            self.talk_count += 1

    async def _talk_once(self, kind: str) -> None:
        run = await self._begun(kind)
        await asyncio.sleep(random.uniform(0, PAUSE_S_MAX))
        sent = await self._steer(kind, run)
        record = await run.wait_for_end()
        if kind == "hanging":
            self.findings.lost += record.run.status is not RunStatus.CANCELED
        else:
            compare(sent, [] if record.result is None else json.loads(record.result), self.findings)

    async def _begun(self, kind: str) -> RunHandle:
        run_id = RunId(str(uuid4()))
        store = self.hw.store
        await store.apply(Submit(run_id=run_id, key=Key(run_id), job=kind))
        run = self.hw.run(run_id)
        self.findings.runs += 1
        while not await _is_ready(kind, run):  # noqa: ASYNC110 - It runs in another process.
            await asyncio.sleep(0.05)
        return run

    async def _steer(self, kind: str, run: RunHandle) -> list[Any]:
        """Steer the run. Return what was accepted."""
        sent = [uuid4().hex for _ in range(MESSAGE_COUNT if kind == "hearing" else 1)]
        if kind == "asking":
            await self._answer(run, sent[0])
        elif kind == "hearing":
            for message in sent:
                await self._until_taken(run, message)
        else:
            await run.cancel(grace_s=END_S_MAX)
        self.findings.accepted += len(sent)
        return sent

    async def _answer(self, run: RunHandle, message: str) -> None:
        while True:  # A run that was taken over at this moment asks once more.
            for call_id in await run.interrupts():
                try:
                    return await run.answer(call_id, message)
                except InterruptNotOpen:
                    continue
            await asyncio.sleep(0.05)

    async def _until_taken(self, run: RunHandle, message: str) -> None:
        while True:
            try:
                return await run.send(message)
            except MessageRefused:
                await asyncio.sleep(0.05)


def compare(sent: Sequence[str], received: Sequence[Any], findings: Findings) -> None:
    """Compare the accepted messages with the received ones: all, once, in order, no others."""
    matching = [message for message in received if message in sent]
    findings.lost += sum(message not in received for message in sent)
    findings.executed_twice += len(matching) - len(set(matching))
    findings.out_of_order += matching != sorted(matching, key=sent.index)
    unexpected = [message for message in received if message not in sent]
    findings.faults += [f"a job received {message!r}, which was not sent" for message in unexpected]


async def _is_ready(kind: str, run: RunHandle) -> bool:
    if kind == "asking":
        return bool(await run.interrupts())
    if kind == "hearing":
        return await run.is_streaming()
    return await run.status() is RunStatus.RUNNING


async def steering(urls: Sequence[str], size: Size, step: Step) -> Findings:
    """Break one server `kill_count` times, each time in another way; then fail a cluster over."""
    findings = Findings()
    if size.kill_count:
        server = start_redis()
        try:
            kinds = islice(cycle(FAULTS), size.kill_count)
            breaks = [partial(break_server, server, kind) for kind in kinds]
            _add(findings, await _torment(urls, server.url, breaks, step))
        finally:
            server.stop()
    if size.failover_count:
        cluster = start_redis_cluster(replicas=1)
        try:
            breaks = [partial(fail_over_cluster, cluster)] * size.failover_count
            _add(
                findings,
                await _torment(
                    urls, cluster_url(cluster), breaks, lambda done: step(size.kill_count + done)
                ),
            )
        finally:
            cluster.stop()
    return findings


def stopping(urls: Sequence[str], size: Size, step: Step) -> Findings:
    """Pause engines with Redis for longer than their leases.

    They must release their runs on waking.
    """
    server = start_redis()
    try:
        return asyncio.run(engines(urls, size, step, redis_url=server.url))
    finally:
        server.stop()


async def _torment(
    urls: Sequence[str], redis_url: str, breaks: Sequence[Callable[[], None]], step: Step
) -> Findings:
    async with _spoken_to(urls, redis_url) as (talk, them), asyncio.TaskGroup() as group:
        began_seq = (await talk.hw.store.events.events(after_seq=0, limit=1)).last_seq
        talks = [group.create_task(talk.talk()) for _ in range(TALK_COUNT)]
        for done, one in enumerate(breaks, start=1):
            await _moved(talk, them)
            from_at = _now()
            await asyncio.to_thread(one)
            talk.outages.append((from_at, _now()))
            step(done)
        await _moved(talk, them)
        talk.is_enough = True
        await asyncio.gather(*talks)
        await _measure(talk, began_seq)
    talk.findings.faults += them.faults
    return talk.findings


@asynccontextmanager
async def _spoken_to(urls: Sequence[str], redis_url: str) -> AsyncIterator[tuple[Talk, Crowd]]:
    with tempfile.TemporaryDirectory(prefix="headway-steering-") as folder:
        load = SteeredLoad(urls=list(urls), redis_url=redis_url, folder=folder, ttl_s=TTL_S)
        async with Headway(*urls, redis_url=redis_url, lease_ttl_s=TTL_S) as hw:
            await hw.store.apply(SetLane(name=MAIN_LANE, max_concurrent=10 * TALK_COUNT))
            with crowd(load, 3) as them:
                yield Talk(hw), them


async def _moved(talk: Talk, them: Crowd) -> None:
    wanted = talk.talk_count + TALKS_BETWEEN
    while talk.talk_count < wanted:
        them.check()
        await asyncio.sleep(0.05)


async def _measure(talk: Talk, after_seq: int) -> None:
    """Measure, by the event stream, the time from a message or an outage's end to its receipt."""
    waits_ms: list[float] = []
    said_at: dict[RunId, Instant] = {}
    async for event in stream_of(talk.hw.store):
        if event.seq <= after_seq or event.run_id is None:
            continue
        is_cancel = event.type == EventType.STATE_CHANGED and '"to":"cancelling"' in event.payload
        if event.type == EventType.MESSAGE_POSTED or is_cancel:
            said_at.setdefault(event.run_id, event.at)
        elif event.type in (EventType.MESSAGES_CONSUMED, EventType.CANCEL_DELIVERED):
            spoken_at = said_at.pop(event.run_id, None)
            if spoken_at is not None:
                ends = [to for _, to in talk.outages if spoken_at <= to and event.at >= to]
                since = max([spoken_at, *ends])
                waits_ms.append((event.at - since) / 1_000)
    waits_ms.sort()
    findings = talk.findings
    findings.outages = len(talk.outages)
    findings.woke_ms_p99 = round(waits_ms[int(len(waits_ms) * 0.99)]) if waits_ms else 0
    if findings.woke_ms_p99 > WAKE_MS_MAX:
        findings.faults.append(f"to wake took {findings.woke_ms_p99} ms (p99)")


def _add(findings: Findings, more: Findings) -> None:
    for name in ("runs", "accepted", "lost", "executed_twice", "out_of_order", "outages", "faults"):
        setattr(findings, name, getattr(findings, name) + getattr(more, name))
    findings.woke_ms_p99 = max(findings.woke_ms_p99, more.woke_ms_p99)


def _now() -> Instant:
    return Instant(time.time_ns() // 1_000)
