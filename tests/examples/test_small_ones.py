"""The examples run as they stand, with nothing else (R1.11), and say what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import TIMEOUT_S, environment

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.backend("sqlite")


def output_of(name: str, folder: Path) -> list[str]:
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
def test_hello_needs_nothing_else_and_may_be_run_again(tmp_path: Path) -> None:
    for _ in range(2):
        assert output_of("hello.py", tmp_path) == ["hello, ann (attempt 1)"]
    assert (tmp_path / "hello.db").exists()


@pytest.mark.proves("R3.13")
def test_ten_sessions_are_answered_in_order_and_three_at_a_time(tmp_path: Path) -> None:
    *answers, order, limit = output_of("ten_sessions.py", tmp_path)
    assert order == "10 of 10 sessions were answered in order."
    assert limit == "At most 3 were at work at once."
    assert len(answers) == 30
    sessions = {line.partition(":")[0] for line in answers[:10]}
    assert len(sessions) == 10, "no session is answered twice before every other was once"
    assert list(tmp_path.iterdir()) == []
