"""`headway.runtime` works on its own, and its documented program runs (R4.12, R4.16)."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from headway.runtime import SHUTDOWN_ANSWER
from tests.runtime.scenes import RuntimeTarget, a_claim, until_waiting

ROOT: Final = Path(__file__).parents[2]
TIMEOUT_S: Final = 60


def run_python(program: str, **environment: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_documented_program_works(target: RuntimeTarget) -> None:
    page = (ROOT / "docs" / "runtime-store.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    variables = {} if target.url is None else {"REDIS_URL": target.url}
    output = run_python(program, **variables)
    assert output.splitlines() == ['answer: {"approved": true}', 'message: "hello"']
    assert all(f"`{line}`" in page for line in output.splitlines())


@pytest.mark.proves("R4.16")
def test_store_in_memory_loads_no_engine_database_or_redis() -> None:
    unwanted = ("headway.services", "headway.adapters", "headway.app", "sqlalchemy", "redis")
    loaded = run_python("import sys, headway.runtime; print(*sys.modules)").split()
    assert [name for name in loaded if name.startswith(unwanted)] == []


@pytest.mark.proves("R4.9")
async def test_closing_the_store_ends_its_waits(target: RuntimeTarget) -> None:
    run_id = a_claim().run_id
    async with asyncio.TaskGroup() as group, target.open() as store:
        wait = group.create_task(store.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(store, run_id, "call-1")
    assert wait.result() == SHUTDOWN_ANSWER
