"""One engine of the torture: a Headway with jobs of many kinds, which submits until it must end.

The jobs write to a ledger. All of them save a checkpoint first, so that a job whose process is
killed later has made progress; except `deadly`, which kills its process each time before it has
made any.
"""

import asyncio
import json
import logging
import os
import random
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from headway import Backoff, BlockingRunContext, Headway, RunContext
from headway.core.run.admission import OnConflict
from tests.torture.ledger import STEP, WAIT, Ledger
from tests.torture.load import DRAIN, END

LANES: Final = {"quick": 4, "long": 5, "waits": 3}
# The job, and how often it is chosen.
SHARES: Final = {
    "stepping": 40, "flaky": 15, "once": 10, "long": 12, "thread": 8, "sleeping": 9, "asking": 6,
}  # fmt: skip
STEPPED: Final = "step_done"
DEADLY: Final = "deadly"
EXPECTED: Final = ("run_ended", "job_failed")
"""Log events that every torture causes."""
STEP_S: Final = 0.02
GROUP_COUNT: Final = 10
QUESTION_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    urls: list[str]
    folder: str
    """The folder of the ledgers, and of the files `drain` and `end`, which the parent creates."""
    key_count: int
    backlog_count: int
    """How many runs are queued at a time."""
    ttl_s: float
    redis_url: str | None = None

    @property
    def may_kill_itself(self) -> bool:
        return True

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.torture.engine", json.dumps(asdict(self))]


def headway_with_jobs(load: EngineLoad, ledger: Ledger) -> Headway:
    hw = Headway(*load.urls, lease_ttl_s=load.ttl_s, stop_wait_s=5.0, redis_url=load.redis_url)
    _register_quick(hw, ledger)
    _register_long(hw, ledger)
    _register_waiters(hw, ledger)
    return hw


def _register_quick(hw: Headway, ledger: Ledger) -> None:
    @hw.job(lane="quick")
    async def stepping(ctx: RunContext) -> Any:
        with ledger.signed(ctx, "quick") as signature:
            for number in range(ctx.checkpoint or 0, 3):
                signature.write(STEP)
                await ctx.save_checkpoint(number + 1)
                await ctx.emit(STEPPED, {"generation": ctx.generation})
                await asyncio.sleep(STEP_S * random.random())
            return _result(ctx)

    @hw.job(lane="quick", retries=3, backoff=Backoff(base_s=0.1, cap_s=0.5))
    async def flaky(ctx: RunContext) -> Any:
        with ledger.signed(ctx, "quick") as signature:
            await ctx.save_checkpoint(ctx.attempt)
            signature.write(STEP)
            await ctx.progress(attempt=ctx.attempt)
            if ctx.attempt <= 2:
                raise RuntimeError(f"attempt {ctx.attempt}")
            return _result(ctx)

    @hw.job(lane="quick", recovery="fail")
    async def once(ctx: RunContext) -> Any:
        with ledger.signed(ctx, "quick") as signature:
            await asyncio.sleep(STEP_S)
            signature.write(STEP)
            return _result(ctx)

    @hw.job(name=DEADLY, lane="quick")
    async def deadly(ctx: RunContext) -> None:
        with ledger.signed(ctx, "quick"):
            os.kill(os.getpid(), signal.SIGKILL)


def _register_long(hw: Headway, ledger: Ledger) -> None:
    @hw.job(name="long", lane="long")
    async def long_(ctx: RunContext) -> Any:
        try:
            with ledger.signed(ctx, "long") as signature:
                await ctx.save_checkpoint("begun")
                for _ in range(random.randrange(20, 80)):  # Meanwhile it makes no call to headway.
                    signature.write(STEP)
                    await asyncio.sleep(STEP_S)
        finally:  # A job that must end can still write; after a lost claim its writes are refused.
            await ctx.emit(STEPPED, {"generation": ctx.generation})
        return _result(ctx)

    @hw.job(lane="long")
    def thread(ctx: BlockingRunContext) -> Any:
        with ledger.signed(ctx, "long") as signature:
            ctx.save_checkpoint("begun")
            for _ in range(random.randrange(5, 40)):
                if ctx.canceled:
                    break
                signature.write(STEP)
                time.sleep(STEP_S)
            ctx.emit(STEPPED, {"generation": ctx.generation})
            return _result(ctx)


def _register_waiters(hw: Headway, ledger: Ledger) -> None:
    @hw.job(lane="waits")
    async def sleeping(ctx: RunContext) -> Any:
        with ledger.signed(ctx, "waits") as signature:
            await ctx.save_checkpoint("begun")
            signature.write(WAIT)
            await ctx.sleep(1.0 + random.random())
            signature.write(STEP)
            await ctx.emit(STEPPED, {"generation": ctx.generation})
            return _result(ctx)

    @hw.job(lane="waits")
    async def asking(ctx: RunContext) -> Any:
        with ledger.signed(ctx, "waits") as signature:
            await ctx.save_checkpoint("begun")
            signature.write(WAIT)
            answer = await ctx.interrupt("May I?", timeout_s=QUESTION_S)
            if not ctx.canceled:  # A job that was cancelled while it waited has no slot any more.
                signature.write(STEP)
            return _result(ctx) | {"answer": answer}


def _result(ctx: RunContext | BlockingRunContext) -> dict[str, Any]:
    return {"generation": ctx.generation}


async def submit(hw: Headway, load: EngineLoad, ledger: Ledger) -> None:
    """Fill the queues until the parent creates `drain`."""
    jobs, shares = list(SHARES), list(SHARES.values())
    while not (Path(load.folder) / DRAIN).exists():
        views = await hw.lanes.list()
        if sum(view.queued_count for view in views) < load.backlog_count:
            for job in random.choices(jobs, shares, k=GROUP_COUNT):
                key = f"key-{random.randrange(load.key_count)}"
                run = await hw.submit(job, key=key, on_conflict=OnConflict.ENQUEUE)
                ledger.accepted(run.id)
        await asyncio.sleep(0.05)


def log_faults() -> None:
    """Log errors for the parent. Warnings are recoverable, and runs are expected to fail here."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: not record.getMessage().startswith(EXPECTED))
    logger = logging.getLogger("headway")
    logger.setLevel(logging.ERROR)
    logger.addHandler(handler)


async def main(load: EngineLoad) -> None:
    log_faults()
    parent_pid = os.getppid()
    ledger = Ledger(Path(load.folder))
    async with headway_with_jobs(load, ledger) as hw, asyncio.TaskGroup() as group:
        submitting = group.create_task(submit(hw, load, ledger))
        # The parent's `end` file, or its exit: nothing else would end this process.
        while not (Path(load.folder) / END).exists() and os.getppid() == parent_pid:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        submitting.cancel()


if __name__ == "__main__":
    asyncio.run(main(EngineLoad(**json.loads(sys.argv[1]))))
