"""A server in its own process, with the jobs of the tests."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STOP_S: Final = 30
POLL_S: Final = 0.05
FILE: Final = """\
from headway.app import Headway
from tests.api.jobs import register
hw = Headway(stop_wait_s=0)
register(hw)
"""
ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Program:
    address: str
    pid: int
    startup_log: str
    """The log of the server until it was ready."""

    def resident_byte_count(self) -> int:
        """Return the resident memory of the process."""
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def served_in_subprocess(
    folder: Path, *, within: Sequence[str] = (), arguments: Sequence[str] = (), **settings: str
) -> Iterator[Program]:
    """Run `headway serve` on a database in `folder`.

    `within` is a command that starts it, if any, and `arguments` are appended to its own.
    """
    serve = [sys.executable, "-m", "headway", "serve", "--app", "server_jobs:hw", "--port", "0"]
    (folder / "server_jobs.py").write_text(FILE)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")
    }
    log = folder / "server.log"
    with log.open("w") as stderr:
        serving = subprocess.Popen(
            [*within, *serve, *arguments],
            cwd=folder,
            env=inherited | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"} | settings,
            stderr=stderr,
        )
    try:
        address = _wait_for_address(serving, log)
        yield Program(address, serving.pid, log.read_text())
    finally:
        serving.terminate()
        serving.wait(STOP_S)


def _wait_for_address(serving: "subprocess.Popen[bytes]", log: Path) -> str:
    """Wait for the banner or the ready event in the log, and return the address in it."""
    while serving.poll() is None:
        for line in log.read_text().splitlines():
            if line.startswith("headway serves "):
                return line.split()[2]
            if '"server_ready"' in line:
                address: str = json.loads(line)["address"]
                return address
        time.sleep(POLL_S)
    raise AssertionError(log.read_text())
