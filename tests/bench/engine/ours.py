"""headway's own part: `python -m tests.bench.engine.ours ORDER` carries out one order."""

import asyncio
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from headway import Headway, RunContext
from headway.bootstrap import open_store, upgrade_database
from headway.core.command.submit import Submit
from headway.core.document import encode_document
from headway.core.ids import MAIN_LANE, Key, RunId
from headway.services.admit import admit
from tests.bench.engine.order import Answer, Order, Work, as_argument, give_answer, received_order
from tests.bench.engine.pickups import time_pickups
from tests.bench.engine.referee import Referee
from tests.bench.stopwatch import Stopwatch

SUBMITTER_COUNT: Final = 1_000
LOOK_S: Final = 0.002
FOR_EVER_S: Final = 3_600.0


@asynccontextmanager
async def _opened(order: Order, job: Callable[..., Awaitable[None]]) -> AsyncIterator[Headway]:
    """An engine with one job, whose lane has room and is paused."""
    await upgrade_database([order.url])
    headway = Headway(order.url, stop_wait_s=0.0)
    headway.job(name="job")(job)
    async with headway:
        limit = max(order.concurrent_count, 1)
        await headway.lanes.set(MAIN_LANE, max_concurrent=limit, is_paused=True)
        yield headway


async def _submit(
    headway: Headway, count: int, *, key_of: Callable[[int], str | None] = lambda _: None
) -> None:
    """In order; those of a batch are sent at once."""
    for first in range(0, count, SUBMITTER_COUNT):
        async with asyncio.TaskGroup() as group:
            for number in range(first, min(count, first + SUBMITTER_COUNT)):
                submission = headway.submit(
                    "job",
                    key=key_of(number),
                    params={"number": number},
                    on_conflict="enqueue",
                )
                group.create_task(submission)


async def _resume(headway: Headway) -> None:
    await headway.lanes.set(MAIN_LANE, is_paused=False)


async def _until_all_ended(headway: Headway) -> None:
    """Until the database says so."""
    while await _active_count(headway):  # noqa: ASYNC110 - Nothing tells that a lane is empty.
        await asyncio.sleep(LOOK_S)


async def _active_count(headway: Headway) -> int:
    return sum(view.held_count + view.queued_count for view in await headway.lanes.list())


async def drain(order: Order) -> Answer:
    referee, have_begun = Referee(), asyncio.Event()

    async def job(ctx: RunContext, number: int) -> None:
        referee.begin(number)
        if len(referee.begun_at_s) == order.job_count:
            have_begun.set()

    async with _opened(order, job) as headway:
        await _submit(headway, order.job_count)
        watch = Stopwatch()
        with watch:
            await _resume(headway)
            await have_begun.wait()
            await _until_all_ended(headway)
    return Answer(count=order.job_count, elapsed_s=watch.elapsed_s, cpu_s=watch.cpu_s)


async def keyed(order: Order) -> Answer:
    referee, have_ended = Referee(concurrent_count=order.concurrent_count), asyncio.Event()

    async def job(ctx: RunContext, number: int) -> None:
        key = number % order.key_count
        referee.enter(key, number)
        await asyncio.sleep(order.work_s)
        referee.leave(key)
        if referee.ended_count == order.job_count:
            have_ended.set()

    async with _opened(order, job) as headway:
        await _submit(headway, order.job_count, key_of=lambda one: f"key-{one % order.key_count}")
        watch = Stopwatch()
        with watch:
            await _resume(headway)
            await have_ended.wait()
            await _until_all_ended(headway)
    return Answer(
        count=order.job_count,
        elapsed_s=watch.elapsed_s,
        cpu_s=watch.cpu_s,
        violation_count=referee.violation_count,
    )


async def pickup(order: Order) -> Answer:
    referee = Referee()

    async def job(ctx: RunContext, number: int) -> None:
        referee.begin(number)

    async with _opened(order, job) as headway:
        await _resume(headway)

        async def submit(number: int) -> None:
            await headway.start("job", params={"number": number})

        if not order.is_apart:
            return await time_pickups(order, referee, submit)
        submitter = await _start_submitter(order)
        try:
            return await time_pickups(
                order, referee, lambda number: _submit_apart(submitter, number)
            )
        finally:
            submitter.kill()
            await submitter.wait()


async def _start_submitter(order: Order) -> Process:
    pipe = asyncio.subprocess.PIPE
    words = (sys.executable, "-m", __spec__.name, as_argument(order, role="submitter"))
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    await process.stdout.readline()  # It is ready.
    return process


async def _submit_apart(submitter: Process, number: int) -> float:
    """When the other process made its call, by the clock that both share."""
    assert submitter.stdin is not None
    assert submitter.stdout is not None
    submitter.stdin.write(b"%d\n" % number)
    return float(await submitter.stdout.readline())


async def submit_when_told(order: Order) -> None:
    """The other process: it has no engine."""
    store = await open_store([order.url], durability="process")
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        run_id = RunId(f"apart-{line.strip()}")
        params = encode_document({"number": int(line)}, place="params")
        print(time.perf_counter(), flush=True)
        await admit(store, Submit(run_id=run_id, key=Key(run_id), job="job", params=params))


CARRIED_OUT: Final[Mapping[Work, Callable[[Order], Awaitable[Answer]]]] = {
    Work.DRAIN: drain,
    Work.PICKUP: pickup,
    Work.KEYED: keyed,
}


def main() -> None:
    order = received_order()
    if order.role == "submitter":
        asyncio.run(submit_when_told(order))
    else:
        give_answer(order, asyncio.run(_carried_out(order)))


async def _carried_out(order: Order) -> Answer:
    return await CARRIED_OUT[order.work](order)


if __name__ == "__main__":
    main()
