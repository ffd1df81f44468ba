"""A process that is there to work."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def told_by(program: str) -> str:
    """What a process of its own prints: the loop and the garbage of this one stay as they are."""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT)
    return done.stdout.strip()


def test_a_process_of_its_own_has_the_quick_loop_and_searches_for_garbage_seldom() -> None:
    program = """
import asyncio, gc, headway
async def main():
    loop = asyncio.get_running_loop()
    print(type(loop).__module__, gc.get_threshold()[0] > 700, gc.get_freeze_count() > 0)
    return "what main gives"
print(headway.run_process(main()))
"""
    assert told_by(program).splitlines() == ["uvloop True True", "what main gives"]


def test_without_uvloop_the_loop_is_pythons_own() -> None:
    program = """
import asyncio, importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "uvloop" else real(name, *rest)
import headway
async def main():
    print(type(asyncio.get_running_loop()).__module__.partition(".")[0])
headway.run_process(main())
"""
    assert told_by(program) == "asyncio"


def test_a_library_leaves_the_process_as_it_is() -> None:
    program = """
import asyncio, gc, headway
before = gc.get_threshold(), gc.get_freeze_count()
async def main():
    async with headway.Headway("sqlite://"):
        print(type(asyncio.get_running_loop()).__module__.partition(".")[0])
asyncio.run(main())
print(before == (gc.get_threshold(), gc.get_freeze_count()))
"""
    assert told_by(program).splitlines() == ["asyncio", "True"]
