"""`hundred`: a hundred concurrent submissions for one key; one is accepted, the others refused.

Four processes make a quarter of them each, on a signal from their parent. A database in memory
belongs to one process, so there all hundred come from one.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Self

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.adapters.system.random_ids import SystemIds
from headway.core.command.run.submit import Accepted, Busy, Submit
from headway.core.ids import Key
from tests.torture.claims import Step
from tests.torture.replay import Findings

CALLER_COUNT: Final = 100
PROCESS_COUNT: Final = 4
READY: Final = "ready"
MEMORY: Final = "sqlite-memory"


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers in one process: the id of the accepted run, or that of the active one."""

    accepted: list[str]
    busy: list[str]


async def hundred(urls: Sequence[str], round_count: int, step: Step) -> Findings:
    findings = Findings()
    async with AsyncExitStack() as stack:
        askers = [await stack.enter_async_context(_Asker(urls)) for _ in range(PROCESS_COUNT)]
        for number in range(round_count):
            answers = await asyncio.gather(*(asker.ask(f"key-{number}") for asker in askers))
            judge(findings, f"key-{number}", answers)
            step(number + 1)
    return findings


async def hundred_in_memory(round_count: int, step: Step) -> Findings:
    findings = Findings()
    store = await open_store(["sqlite:///:memory:"])
    try:
        for number in range(round_count):
            judge(
                findings,
                f"key-{number}",
                [await submit_at_once(store, f"key-{number}", CALLER_COUNT)],
            )
            step(number + 1)
    finally:
        await store.close()
    return findings


def judge(findings: Findings, key: str, answers: Sequence[Answers]) -> None:
    accepted = [run_id for answer in answers for run_id in answer.accepted]
    busy = [run_id for answer in answers for run_id in answer.busy]
    findings.runs += len(accepted)
    findings.accepted += len(accepted)
    findings.told += len(busy)
    if len(accepted) != 1:
        findings.faults.append(f"{key}: {len(accepted)} accepted")
    if busy != accepted * (CALLER_COUNT - 1):
        right_count = sum(run_id in accepted for run_id in busy)
        findings.faults.append(f"{key}: {right_count} got the id of the active run")


async def submit_at_once(store: SqlStore, key: str, count: int) -> Answers:
    ids = SystemIds()
    commands = [Submit(run_id=ids.run_id(), key=Key(key), job="work") for _ in range(count)]
    answers = await asyncio.gather(*map(store.apply, commands))
    return Answers(
        accepted=[answer.run_id for answer in answers if isinstance(answer, Accepted)],
        busy=[answer.active_run_id for answer in answers if isinstance(answer, Busy)],
    )


class _Asker:
    """A process that submits for the key it receives."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.torture.hundred", *self._urls),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert await self._line() == READY
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def ask(self, key: str) -> Answers:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{key}\n".encode())
        return Answers(**json.loads(await self._line()))

    async def _line(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()


async def main(urls: Sequence[str]) -> None:
    store = await open_store(urls)
    try:
        print(READY, flush=True)
        while key := (await asyncio.to_thread(sys.stdin.readline)).strip():
            answers = await submit_at_once(store, key, CALLER_COUNT // PROCESS_COUNT)
            print(json.dumps({"accepted": answers.accepted, "busy": answers.busy}), flush=True)
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
