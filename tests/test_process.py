"""Process settings: `run_process` tunes its process, and the library does not."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_program(program: str) -> str:
    """Return the output of a new process, so that this one keeps its loop and gc settings."""
    command = [sys.executable, "-c", program]
    process = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    return process.stdout.strip()


def test_run_process_uses_uvloop_and_collects_garbage_rarely() -> None:
    program = """
import asyncio, gc, headway
async def main():
    loop = asyncio.get_running_loop()
    print(type(loop).__module__, gc.get_threshold()[0] > 700, gc.get_freeze_count() > 0)
    return "what main gives"
print(headway.run_process(main()))
"""
    assert run_program(program).splitlines() == ["uvloop True True", "what main gives"]


def test_the_library_changes_neither_the_event_loop_nor_the_garbage_collector() -> None:
    program = """
import asyncio, gc, headway
before = gc.get_threshold(), gc.get_freeze_count()
async def main():
    async with headway.Headway("sqlite://"):
        print(type(asyncio.get_running_loop()).__module__.partition(".")[0])
asyncio.run(main())
print(before == (gc.get_threshold(), gc.get_freeze_count()))
"""
    assert run_program(program).splitlines() == ["asyncio", "True"]


def test_start_does_not_import_alembic() -> None:
    """Only migrations need it, and importing it takes a quarter of the start-up."""
    program = "import sys, headway.bootstrap; print('alembic' in sys.modules)"
    assert run_program(program) == "False"
