"""The program, the server and the commands of the README work as printed."""

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
    commands,
    files,
    free_port,
    install_headway_command,
)

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.slow]

README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
VARIABLES: Final = {"PYTHONPATH": str(ROOT / "src")}


def section(title: str) -> str:
    """Return the text from this heading to the next."""
    match = re.search(rf"^## {title}\n(.*?)^## ", README, re.DOTALL | re.MULTILINE)
    assert match is not None, title
    return match[1]


def read_program() -> str:
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", section("Thirty seconds"), re.DOTALL | re.MULTILINE
    )
    return str(program)


def type_commands(folder: Path, tmp_path: Path, text: str) -> None:
    """Run all commands of a part of the README as printed, except for the port."""
    port = free_port()
    path = f"{install_headway_command(tmp_path)}:{os.environ['PATH']}"
    shell = Shell(folder, environment(PATH=path, HEADWAY_PORT=port, **VARIABLES))
    with shell.programs:
        for command, expected in commands(text.replace("8070", port)):
            shell.type(command, expected)


def test_program_prints_the_expected_result(folder: Path) -> None:
    (folder / "jobs.py").write_text(read_program())
    result = subprocess.run(
        [sys.executable, "jobs.py"],
        cwd=folder,
        env=environment(**VARIABLES),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    (expected,) = re.findall(r"print\(await run\.result\(\)\)  # (.+)", read_program())
    assert (result.returncode, result.stdout) == (0, f"{expected}\n"), result.stderr


@pytest.mark.proves("R1.11")
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_same_file_is_served_and_curl_prints_the_expected_output(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "jobs.py").write_text(read_program())
    type_commands(folder, tmp_path, section("As a service"))


@pytest.mark.proves("R1.11")
def test_jobs_file_is_served_and_its_run_submitted_watched_and_cancelled(
    folder: Path, tmp_path: Path
) -> None:
    text = section("On a terminal")
    for name, content in files(text).items():
        (folder / name).write_text(content)
    type_commands(folder, tmp_path, text)
