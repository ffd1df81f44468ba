"""Ctrl-C and SIGTERM: the program leaves gracefully, and what it was doing is done or given up."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headway import Headway, RunStatus
from tests.cli.command import TIMEOUT_S, environment
from tests.engine.scenes import looked_at, records

pytestmark = pytest.mark.backend("sqlite")

PROGRAM = Path(__file__).with_name("ending_program.py")


@contextmanager
def program(url: str, may_end: Path) -> Iterator["subprocess.Popen[str]"]:
    # Tests that run in the background of a shell ignore the signal, and their children inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, PROGRAM, url, may_end],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert line_of(process) == "working"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.proves("R4.9")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_what_runs_come_to_its_end(
    url: str, tmp_path: Path, number: signal.Signals
) -> None:
    may_end = tmp_path / "end"
    with program(url, may_end) as process:
        process.send_signal(number)
        assert line_of(process) == f"leaving after {number.name}"
        may_end.touch()
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, out, err) == (0, "left\n", "")
    async with looked_at(url) as store:
        (record,) = await records(store)
    assert (record.run.status, record.result) == (RunStatus.SUCCEEDED, '"done"')


@pytest.mark.proves("R4.9")
async def test_a_second_signal_ends_it_at_once_and_the_run_is_not_lost(
    url: str, tmp_path: Path
) -> None:
    with program(url, tmp_path / "never") as process:
        process.send_signal(signal.SIGTERM)
        assert line_of(process) == "leaving after SIGTERM"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == -signal.SIGTERM
    async with looked_at(url) as store:
        (record,) = await records(store)
    assert record.run.status is RunStatus.RUNNING


async def test_there_must_be_something_at_work_to_wait_in(url: str) -> None:
    with pytest.raises(RuntimeError, match="use `async with`"):
        await Headway(url).wait_for_signal()
