"""The processes of a load, as their parent sees them: started, killed by their own pid, ended."""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from tests.cli.command import environment
from tests.torture.load import DRAIN, END

END_WAIT_S: Final = 60.0


class Program(Protocol):
    @property
    def folder(self) -> str:
        """The folder in which it polls for the files `drain` and `end`."""
        ...

    @property
    def may_kill_itself(self) -> bool:
        """True if one of its jobs ends the process by SIGKILL on purpose."""
        ...

    def command(self) -> list[str]: ...


class Crowd:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._folder = Path(program.folder)
        self._processes: list[subprocess.Popen[str]] = []
        self._spared: set[int] = set()
        self.faults: list[str] = []
        """Error output of the processes. A killed process has none."""

    @property
    def count(self) -> int:
        return len(self._processes)

    def add(self) -> None:
        self._processes.append(
            subprocess.Popen(
                self._program.command(), env=environment(), stderr=subprocess.PIPE, text=True
            )
        )

    def kill(self, place: int, *, among: Collection[int] = ()) -> int:
        """SIGKILL a process that is not spared, start a new one in its place, and return its pid.

        `among` are the pids to choose from, if any of them exists.
        """
        process = self._unspared(place, among)
        self._processes.remove(process)
        process.kill()
        self._collect(process, was_killed=True)
        self.add()
        return process.pid

    def pause(self, place: int) -> int:
        """SIGSTOP a process, spare it from now on, and return its pid."""
        pid = self._unspared(place).pid
        self._spared.add(pid)
        os.kill(pid, signal.SIGSTOP)
        return pid

    def wake(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)

    def spare_no_more(self, pid: int) -> None:
        self._spared.discard(pid)

    def _unspared(self, place: int, among: Collection[int] = ()) -> "subprocess.Popen[str]":
        others = [one for one in self._processes if one.pid not in self._spared]
        others = [one for one in others if one.pid in among] or others
        return others[place % len(others)]

    def drain(self) -> None:
        (self._folder / DRAIN).touch()

    def end(self) -> None:
        (self._folder / END).touch()
        deadline_s = time.monotonic() + END_WAIT_S
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                self.faults.append(f"process {process.pid} did not end")
            self._collect(process, was_killed=False)
        self._processes = []

    def check(self) -> None:
        """Detect processes that ended by themselves before the parent created `end`.

        A process that killed itself on purpose is replaced. A paused process keeps its entry until
        it is awake, so that no signal reaches a reused pid.
        """
        for process in list(self._processes):
            if process.pid in self._spared or process.poll() is None:
                continue
            self._processes.remove(process)
            killed_itself = self._program.may_kill_itself and process.returncode == -signal.SIGKILL
            self._collect(process, was_killed=killed_itself)
            if killed_itself:
                self.add()
            else:
                self.faults.append(f"process {process.pid} ended too early")

    def _collect(self, process: subprocess.Popen[str], *, was_killed: bool) -> None:
        _, errors = process.communicate()
        if errors.strip():
            # The last lines that are not indented: the error itself, also inside a group.
            plain = [line for line in errors.splitlines() if line.strip(" |+-") != ""]
            self.faults.append("\n".join(plain[-12:]))
        elif process.returncode and not was_killed:
            self.faults.append(f"process {process.pid} ended with {process.returncode}")


@contextmanager
def crowd(program: Program, process_count: int) -> Iterator[Crowd]:
    """Start the processes, and end all of them at the end."""
    them = Crowd(program)
    try:
        for _ in range(process_count):
            them.add()
        yield them
    finally:
        them.end()
