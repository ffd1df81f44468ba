"""headway's own part: `python -m tests.bench.engine.ours ORDER` carries out one order."""

import asyncio
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from headway import RunContext
from headway.bootstrap import open_store
from headway.core.command.run.submit import Submit
from headway.core.document import encode_document
from headway.core.ids import Key, RunId
from headway.process.dedicated import run_process
from tests.bench.engine.opened import opened_engine, resume, submit_many, until_all_ended
from tests.bench.engine.order import Answer, Order, Work, as_argument, give_answer, received_order
from tests.bench.engine.ours_at_rest import sleep_together, start_up, stay, wait_idly
from tests.bench.engine.ours_flows import flows
from tests.bench.engine.ours_parked import park
from tests.bench.engine.pickups import time_pickups
from tests.bench.engine.referee import Referee
from tests.bench.stopwatch import Stopwatch


async def drain(order: Order) -> Answer:
    referee, have_begun = Referee(), asyncio.Event()

    async def job(ctx: RunContext, number: int) -> None:
        referee.begin(number)
        if len(referee.begun_at_s) == order.job_count:
            have_begun.set()

    async with opened_engine(order, job) as headway:
        await submit_many(headway, order.job_count)
        watch = Stopwatch()
        with watch:
            await resume(headway)
            await have_begun.wait()
            await until_all_ended(headway)
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

    async with opened_engine(order, job) as headway:
        await submit_many(
            headway, order.job_count, key_of=lambda one: f"key-{one % order.key_count}"
        )
        watch = Stopwatch()
        with watch:
            await resume(headway)
            await have_ended.wait()
            await until_all_ended(headway)
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

    async with opened_engine(order, job) as headway:
        await resume(headway)

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
    """Return when the other process made its call, by the clock that both share."""
    assert submitter.stdin is not None
    assert submitter.stdout is not None
    submitter.stdin.write(b"%d\n" % number)
    return float(await submitter.stdout.readline())


async def submit_when_told(order: Order) -> None:
    """Run the submitting process, which has no engine."""
    store = await open_store([order.url], durability="process")
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        run_id = RunId(f"apart-{line.strip()}")
        params = encode_document({"number": int(line)}, field="params")
        print(time.perf_counter(), flush=True)
        await store.apply(Submit(run_id=run_id, key=Key(run_id), job="job", params=params))


CARRIED_OUT: Final[Mapping[Work, Callable[[Order], Awaitable[Answer]]]] = {
    Work.DRAIN: drain,
    Work.PICKUP: pickup,
    Work.KEYED: keyed,
    Work.FLOWS: flows,
    Work.PARKED: park,
    Work.SLEEPERS: sleep_together,
    Work.IDLE: wait_idly,
    Work.STARTUP: start_up,
}


def main() -> None:
    order = received_order()
    if order.role == "submitter":
        run_process(submit_when_told(order))
    elif order.work is Work.RECOVERY:
        run_process(stay(order))
    else:
        give_answer(order, run_process(_carried_out(order)))


async def _carried_out(order: Order) -> Answer:
    return await CARRIED_OUT[order.work](order)


if __name__ == "__main__":
    main()
