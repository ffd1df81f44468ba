"""SIGHUP and `headway config reload` make a running server read the limits of lanes again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.command import TIMEOUT_S, command, environment, headway

pytestmark = [pytest.mark.slow, pytest.mark.proves("R3.10")]

JOBS = """\
import asyncio
from headway import Headway, RunContext
hw = Headway()

@hw.job
async def stay(ctx: RunContext) -> None:
    await asyncio.Event().wait()

async def main() -> None:
    async with hw:
        waiting = asyncio.create_task(hw.wait_for_signal())
        await asyncio.sleep(0)  # Let the task install its signal handlers.
        print("ready", flush=True)
        await waiting

if __name__ == "__main__":
    import logging, sys
    logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
    asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Started:
    process: subprocess.Popen[str]
    lines: Iterator[str]

    def line_with(self, text: str) -> str:
        """Return the next line with this text. Raise AssertionError if the program ends first."""
        matching = next((line for line in self.lines if text in line), None)
        assert matching is not None, f"the program exited without a line with {text!r}"
        return matching

    def hang_up(self) -> None:
        self.process.send_signal(signal.SIGHUP)


def _restore_sighup() -> None:
    """Restore SIGHUP, which tests under `nohup` ignore and their children inherit."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def started(*arguments: str, folder: Path) -> Iterator[Started]:
    (folder / "jobs.py").write_text(JOBS)
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env=environment(PYTHONPATH=os.environ.get("PYTHONPATH", "")),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_restore_sighup,  # noqa: PLW1509  # No threads are running.
    )
    try:
        assert process.stdout is not None
        yield Started(process, iter(process.stdout.readline, ""))
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


@contextmanager
def serving(folder: Path) -> Iterator[tuple[Started, str]]:
    with started(*command("serve", "--app", "jobs:hw", "--port", "0"), folder=folder) as server:
        yield server, server.line_with("headway serves ").split()[2]


def limit_of(lane: str, folder: Path, address: str) -> str:
    lines = headway("lane", "list", folder=folder, HEADWAY_URL=address).out.splitlines()
    return {line.split("\t")[0]: line.split("\t")[2] for line in lines}[lane]


def test_server_reads_the_lanes_again_on_sighup_and_by_command(folder: Path) -> None:
    file = folder / "headway.toml"
    file.write_text("[lanes]\nmain = 5")
    with serving(folder) as (server, address):
        assert limit_of("main", folder, address) == "5"
        file.write_text("[lanes]\nmain = 7")
        server.hang_up()
        server.line_with("configuration_reloaded")
        assert limit_of("main", folder, address) == "7"

        file.write_text("log_level = 'debug'\n[lanes]\nmain = 8\nmail = 2")
        result = headway("config", "reload", folder=folder, HEADWAY_URL=address)
        assert result.out == "lane main: 7 -> 8\nlane mail: 1 -> 2\nrestart to apply: log_level\n"
        again = headway("config", "reload", "--json", folder=folder, HEADWAY_URL=address)
        assert again.out == '{"lanes": [], "restart_to_apply": ["log_level"]}\n'


@pytest.mark.proves("R3.12")
def test_reload_of_an_invalid_file_changes_nothing_and_is_reported_in_one_sentence(
    folder: Path,
) -> None:
    file = folder / "headway.toml"
    file.write_text("[lanes]\nmain = 5")
    sentence = "lanes in headway.toml is invalid: lanes.cron must be 0 to 1,000,000"
    with serving(folder) as (server, address):
        file.write_text("[lanes]\nmain = 7\ncron = -1")
        server.hang_up()
        assert f"{sentence}; nothing was changed" in server.line_with("configuration_refused")
        # The command reads its own file, so it runs in a folder without the wrong one.
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        result = headway("config", "reload", folder=elsewhere, HEADWAY_URL=address)
        assert (result.code, result.err) == (2, f"headway: {sentence}; nothing was changed\n")
        assert limit_of("main", elsewhere, address) == "5"


def test_program_that_embeds_headway_reloads_on_sighup(folder: Path) -> None:
    with started(sys.executable, "jobs.py", folder=folder) as program:
        program.line_with("ready")
        (folder / "headway.toml").write_text("[lanes]\nmain = 7")
        program.hang_up()
        program.line_with("configuration_reloaded")
    with serving(folder) as (_, address):
        assert limit_of("main", folder, address) == "7"


def test_command_without_a_server_applies_the_lanes_to_the_database(folder: Path) -> None:
    assert headway("db", "upgrade", folder=folder).code == 0
    (folder / "headway.toml").write_text("[lanes]\nmain = 7")
    assert headway("config", "reload", folder=folder).out == "lane main: 3 -> 7\n"
    lanes = headway("lane", "list", folder=folder).out.splitlines()
    assert any(line.startswith("main\t0\t7\t") for line in lanes)
