"""The README, word by word: its program, its server, its `curl`s and its commands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.cli.command import TIMEOUT_S, environment
from tests.cli.test_tutorial import (
    ROOT,
    Shell,
    a_free_port,
    a_headway_command,
    commands,
    files,
)

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.slow]

README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
VARIABLES: Final = {"PYTHONPATH": str(ROOT / "src")}


def section(title: str) -> str:
    """From one heading to the next."""
    found = re.search(rf"^## {title}\n(.*?)^## ", README, re.DOTALL | re.MULTILINE)
    assert found is not None, title
    return found[1]


def the_program() -> str:
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", section("Thirty seconds"), re.DOTALL | re.MULTILINE
    )
    return str(program)


def typed(folder: Path, tmp_path: Path, text: str) -> None:
    """All commands of a part of the README, as they are printed but for the port."""
    port = a_free_port()
    path = f"{a_headway_command(tmp_path)}:{os.environ['PATH']}"
    shell = Shell(folder, environment(PATH=path, HEADWAY_PORT=port, **VARIABLES))
    with shell.programs:
        for command, expected in commands(text.replace("8070", port)):
            shell.type(command, expected)


def test_the_program_prints_what_it_says(folder: Path) -> None:
    (folder / "jobs.py").write_text(the_program())
    ended = subprocess.run(
        [sys.executable, "jobs.py"],
        cwd=folder,
        env=environment(**VARIABLES),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    (expected,) = re.findall(r"print\(await run\.result\(\)\)  # (.+)", the_program())
    assert (ended.returncode, ended.stdout) == (0, f"{expected}\n"), ended.stderr


@pytest.mark.proves("R1.11")
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_the_same_file_is_served_and_curl_is_answered_as_printed(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "jobs.py").write_text(the_program())
    typed(folder, tmp_path, section("As a service"))


@pytest.mark.proves("R1.11")
def test_a_file_of_ones_own_is_served_submitted_watched_and_cancelled(
    folder: Path, tmp_path: Path
) -> None:
    text = section("On a terminal")
    for name, content in files(text).items():
        (folder / name).write_text(content)
    typed(folder, tmp_path, text)
