"""A jobs file is served, and its jobs are submitted, watched and cancelled."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.command import TIMEOUT_S, command, environment, headway, refusal

pytestmark = pytest.mark.slow

FILE = """\
import asyncio
from headway import Headway, RunContext
hw = Headway()

@hw.job
async def count(ctx: RunContext, upto: int = 3) -> int:
    for done in range(1, upto + 1):
        await ctx.progress(counted=done, of=upto)
        await ctx.log(f"counted to {done}")
    return upto

@hw.job
async def stay(ctx: RunContext) -> None:
    await asyncio.Event().wait()

@hw.job
async def fail(ctx: RunContext) -> None:
    raise ValueError("the feed is gone")
"""


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    (folder / "jobs.py").write_text(FILE)
    serving = subprocess.Popen(
        command("serve", "--app", "jobs:hw", "--port", "0"),
        cwd=folder,
        env=environment(PYTHONPATH=os.environ.get("PYTHONPATH", "")),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stderr is not None
        lines = iter(serving.stderr.readline, "")
        banner = next(line for line in lines if line.startswith("headway serves "))
        yield banner.split()[2]
    finally:
        serving.terminate()
        serving.communicate(timeout=TIMEOUT_S)
    assert serving.returncode == 0


@pytest.mark.proves("R1.11")
def test_jobs_file_is_served_and_its_jobs_submitted_watched_and_cancelled(
    folder: Path, address: str
) -> None:
    result = headway("run", "submit", "count", "upto=4", folder=folder, HEADWAY_URL=address)
    assert (result.code, result.err) == (0, "")
    shown = on_a_terminal("run", "watch", result.out.strip(), folder=folder, HEADWAY_URL=address)
    assert "4/4" in shown
    assert "counted to 4" in shown
    assert "succeeded after" in shown
    stay = headway("run", "submit", "stay", "--key", "ann", folder=folder, HEADWAY_URL=address)
    busy = headway("run", "submit", "stay", "--key", "ann", folder=folder, HEADWAY_URL=address)
    assert (busy.code, busy.out) == (3, "")
    canceled = headway("run", "cancel", stay.out.strip(), folder=folder, HEADWAY_URL=address)
    assert (canceled.code, canceled.out) in ((0, "requested\n"), (0, "canceled\n"))
    watched = headway("run", "watch", stay.out.strip(), folder=folder, HEADWAY_URL=address)
    assert watched.code == 1


def test_https_url_of_a_plain_http_server_is_refused_with_advice_to_use_http(
    folder: Path, address: str
) -> None:
    url = address.replace("http://", "https://")
    result = headway("lane", "list", folder=folder, HEADWAY_URL=url)
    assert (result.code, result.out) == (5, "")
    assert result.err == (
        f"headway: the server {url} cannot be reached: the TLS handshake failed;"
        " headway itself serves plain HTTP, so try http:// in HEADWAY_URL\n"
    )


def test_unreachable_server_is_named(folder: Path) -> None:
    result = headway("lane", "list", folder=folder, HEADWAY_URL="http://127.0.0.1:1")
    assert (result.code, result.out) == (5, "")
    assert result.err == (
        "headway: the server http://127.0.0.1:1 cannot be reached: connection refused;"
        " is headway serve running there?\n"
    )


def test_server_with_an_unresolvable_name_is_reported(folder: Path) -> None:
    result = headway("lane", "list", folder=folder, HEADWAY_URL="http://nowhere.invalid:1")
    assert (result.code, result.out) == (5, "")
    assert "cannot be reached: " in result.err
    assert "ssl:default" not in result.err


@pytest.mark.proves("R1.11")
@pytest.mark.parametrize("arguments", [["run", "list"], ["explain", "some-run"]])
def test_command_without_a_database_explains_how_to_get_one_and_creates_none(
    folder: Path, arguments: list[str]
) -> None:
    assert refusal(*arguments, folder=folder) == (
        f"there is no database {folder / 'headway.db'}; start headway serve or your program there,"
        " or name a server with HEADWAY_URL"
    )


@pytest.mark.proves("S4")
def test_configuration_is_shown_without_secrets(folder: Path) -> None:
    result = headway(
        "config",
        "show",
        folder=folder,
        HEADWAY_TOKEN="hush-hush-hush-hush",
        HEADWAY_DATABASE_URL="postgresql://ann:hush-hush@db.example:5432/runs",
    )
    settings = {line.split("\t")[0]: line.split("\t")[1:] for line in result.out.splitlines()}
    assert settings["token"] == ["(secret)", "HEADWAY_TOKEN"]
    assert settings["database_url"][0] == "postgresql://ann:(secret)@db.example:5432/runs"
    assert settings["port"] == ["8070", "default"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_contains_the_commands(folder: Path, shell: str) -> None:
    result = headway("completion", shell, folder=folder)
    assert result.code == 0
    assert "submit" in result.out


@pytest.mark.proves("R7.11", "R1.10")
def test_traceback_of_a_failed_run_is_shown_with_the_run(folder: Path, address: str) -> None:
    run_id = headway("run", "submit", "fail", folder=folder, HEADWAY_URL=address).out.strip()
    headway("run", "watch", run_id, folder=folder, HEADWAY_URL=address)
    shown_json = headway("run", "get", run_id, "--json", folder=folder, HEADWAY_URL=address)
    run = json.loads(shown_json.out)
    assert run["updated_at"] == run["ended_at"]
    assert run["traceback"].endswith("ValueError: the feed is gone\n")
    shown = on_a_terminal("run", "get", run_id, folder=folder, HEADWAY_URL=address)
    lines = shown.splitlines()
    assert "  Traceback (most recent call last):" in lines
    assert lines[-1] == "  ValueError: the feed is gone"
    piped = headway("run", "get", run_id, folder=folder, HEADWAY_URL=address).out.splitlines()
    (fact,) = [line for line in piped if line.startswith("traceback\t")]
    assert fact.endswith(r"ValueError: the feed is gone\n")


def on_a_terminal(*arguments: str, folder: Path, **settings: str) -> str:
    """Return what the command prints on a terminal."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            command(*arguments),
            cwd=folder,
            env=environment(TERM="xterm", COLUMNS="160", **settings),
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        parts = []
        with suppress(OSError):  # A pseudo-terminal raises EIO once its last process has exited.
            while part := os.read(ours, 65_536):
                parts.append(part)
        assert process.wait(TIMEOUT_S) == 0
    finally:
        os.close(ours)
    return b"".join(parts).decode()
