"""Ctrl-C and SIGTERM: the program stops gracefully, and its runs end or are released."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headway import Headway, RunStatus
from tests.cli.command import TIMEOUT_S, environment
from tests.engine.scenes import open_bare_store, records

pytestmark = pytest.mark.backend("sqlite")

PROGRAM = Path(__file__).with_name("ending_program.py")


@contextmanager
def start_program(url: str, may_end: Path) -> Iterator["subprocess.Popen[str]"]:
    # A background process of a shell ignores SIGINT, and its children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, PROGRAM, url, may_end],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert read_line(process) == "working"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


def read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.proves("R4.9")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_active_runs_may_finish_after_a_signal(
    url: str, tmp_path: Path, number: signal.Signals
) -> None:
    may_end = tmp_path / "end"
    with start_program(url, may_end) as process:
        process.send_signal(number)
        assert read_line(process) == f"leaving after {number.name}"
        may_end.touch()
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, out, err) == (0, "left\n", "")
    async with open_bare_store(url) as store:
        (record,) = await records(store)
    assert (record.run.status, record.result) == (RunStatus.SUCCEEDED, '"done"')


@pytest.mark.proves("R4.9")
async def test_a_second_signal_ends_the_program_at_once_without_losing_the_run(
    url: str, tmp_path: Path
) -> None:
    with start_program(url, tmp_path / "never") as process:
        process.send_signal(signal.SIGTERM)
        assert read_line(process) == "leaving after SIGTERM"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == -signal.SIGTERM
    async with open_bare_store(url) as store:
        (record,) = await records(store)
    assert record.run.status is RunStatus.RUNNING


async def test_wait_for_signal_requires_an_open_headway(url: str) -> None:
    with pytest.raises(RuntimeError, match="use `async with`"):
        await Headway(url).wait_for_signal()
