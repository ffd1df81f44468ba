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
        """Where it looks for the files `drain` and `end`."""
        ...

    @property
    def may_kill_itself(self) -> bool:
        """Whether one of its jobs ends the process by SIGKILL on purpose."""
        ...

    def command(self) -> list[str]: ...


class Crowd:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._folder = Path(program.folder)
        self._processes: list[subprocess.Popen[str]] = []
        self._spared: set[int] = set()
        self.faults: list[str] = []
        """What the processes complained about; a process that was killed complains of nothing."""

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
        """SIGKILL one of them that is not spared, put a new one in its place, return its pid.

        `among`: the pids to choose from, if any of them is there.
        """
        process = self._unspared(place, among)
        self._processes.remove(process)
        process.kill()
        self._collect(process, was_killed=True)
        self.add()
        return process.pid

    def pause(self, place: int) -> int:
        """SIGSTOP one of them, and spare it from now on; its pid."""
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
        """Notice one that ended by itself before it was told to.

        A process that killed itself on purpose is replaced. One that is paused keeps its entry
        until it is awake, so that no signal reaches a reused pid.
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
                self.faults.append(f"process {process.pid} ended before it was told to")

    def _collect(self, process: subprocess.Popen[str], *, was_killed: bool) -> None:
        _, errors = process.communicate()
        if errors.strip():
            # The last lines that are not indented: an error's own, also inside of a group.
            plain = [line for line in errors.splitlines() if line.strip(" |+-") != ""]
            self.faults.append("\n".join(plain[-12:]))
        elif process.returncode and not was_killed:
            self.faults.append(f"process {process.pid} ended with {process.returncode}")


@contextmanager
def crowd(program: Program, process_count: int) -> Iterator[Crowd]:
    """Start them, and leave none behind."""
    them = Crowd(program)
    try:
        for _ in range(process_count):
            them.add()
        yield them
    finally:
        them.end()
