"""The examples run as they are, without other programs, and print what they promise (R1.11)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import TIMEOUT_S, environment

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.backend("sqlite")


def run_example(name: str, folder: Path) -> list[str]:
    ended = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=folder,
        env=environment(TMPDIR=str(folder)),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


@pytest.mark.proves("R1.11")
def test_hello_runs_twice_without_other_programs(tmp_path: Path) -> None:
    for _ in range(2):
        assert run_example("hello.py", tmp_path) == ["hello, ann (attempt 1)"]
    assert (tmp_path / "hello.db").exists()


@pytest.mark.proves("R3.13")
def test_ten_sessions_are_answered_in_order_three_at_a_time(tmp_path: Path) -> None:
    *answers, order, limit = run_example("ten_sessions.py", tmp_path)
    assert order == "10 of 10 sessions were answered in order."
    assert limit == "At most 3 sessions were active at once."
    assert len(answers) == 30
    sessions = {line.partition(":")[0] for line in answers[:10]}
    assert len(sessions) == 10, "a session was answered twice before every other was answered once"
    assert list(tmp_path.iterdir()) == []
