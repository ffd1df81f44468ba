"""A server process: started, paused, killed with its children, and ended with its owner."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

from tests.servers.folder import Folder, server_user_id

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0
_TRAMPOLINE: Final = Path(__file__).with_name("trampoline.py")
# Below the ports that the kernel assigns to outgoing connections: a client that keeps connecting to
# a dead server's port could otherwise get that very port, and connect to itself.
_PORTS: Final = range(20_000, 32_000)
_ENVIRONMENT: Final = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


class Missing(Exception):
    """A server that this machine does not have. The message states why, and how to install it."""


@cache
def _untried_ports() -> Iterator[int]:
    # The system's randomness: test runners seed the other generator equally in every process.
    return iter(random.SystemRandom().sample(_PORTS, len(_PORTS)))


def free_port() -> int:
    """Return a free port that was not returned before."""
    for port in _untried_ports():
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise RuntimeError("no free port on 127.0.0.1")


def wait_until(condition: Callable[[], bool], *, what: str, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(0.02)


def run_once(*command: str | Path, folder: Folder) -> None:
    """Run a set-up program as the servers' user, to its end."""
    user_id = server_user_id()
    ended = subprocess.run(
        [str(word) for word in command],
        cwd=folder.path,
        env=_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        user=user_id,
        group=user_id,
        extra_groups=None if user_id is None else [],
        timeout=START_TIMEOUT_S,
        check=False,
    )
    if ended.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{ended.stdout.decode(errors='replace')}")


@cache
def _spawner() -> ThreadPoolExecutor:
    """Return the one thread that starts servers.

    The kernel ties the lifetime of a child to the *thread* that started it. This thread therefore
    stays as long as the process, for servers requested by any thread.
    """
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="server-spawner")


class ServerProcess:
    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        folder: Folder,
        is_ready: Callable[[], bool],
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.folder = folder
        self._command = [str(word) for word in command]
        self._is_ready = is_ready
        self._stop_signal = stop_signal
        self._log = folder.path / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start, and return when the server answers. It must not be running."""
        assert self._process is None
        self._process = _spawner().submit(self._spawn).result()
        try:
            wait_until(self._answers, what="the server answers", timeout_s=START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Shut down gracefully. Do nothing if the server is not running."""
        if self._process is None:
            return
        self.resume()
        self._process.send_signal(self._stop_signal)
        try:
            self._process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._forget()

    def kill(self) -> None:
        """SIGKILL the server and its children, as a power cut would."""
        if self._process is None:
            return
        family = self._signal_family(signal.SIGKILL)
        self._process.wait(timeout=STOP_TIMEOUT_S)
        wait_until(
            lambda: not is_any_alive(family),
            what="the server's processes end",
            timeout_s=STOP_TIMEOUT_S,
        )
        self._forget()

    def pause(self) -> None:
        self._signal_family(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_family(signal.SIGCONT)

    def _spawn(self) -> subprocess.Popen[bytes]:
        user_id = server_user_id()
        notice = "signal" if sys.platform == "linux" else "pipe"
        trampoline = [sys.executable, "-I", "-S", str(_TRAMPOLINE)]
        terms = [str(os.getpid()), "-" if user_id is None else str(user_id), notice]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*trampoline, *terms, *self._command],
                cwd=self.folder.path,
                env=_ENVIRONMENT,
                stdin=subprocess.PIPE,  # Only this process holds it open; see the trampoline.
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C at the keyboard must reach the tests only.
            )

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            tail = self._log.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{self._command[0]} did not start:\n{tail}")
        return self._is_ready()

    def _signal_family(self, number: signal.Signals) -> list[int]:
        """Signal the server and its children, which are listed while it cannot start more."""
        assert self._process is not None
        if self._process.poll() is not None:  # It ended by itself; its id may have been reused.
            return []
        os.kill(self.pid, signal.SIGSTOP)
        family = [*children_of(self.pid), self.pid]
        for pid in family:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        return family

    def _forget(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process = None


def is_any_alive(pids: Collection[int]) -> bool:
    """Return whether any of them is running.

    An ended process that was not reaped does not count.
    """
    return any(pid in pids for pid, _ in _process_table())


def children_of(parent_pid: int) -> list[int]:
    return [pid for pid, its_parent_pid in _process_table() if its_parent_pid == parent_pid]


def _process_table() -> list[tuple[int, int]]:
    """Return the process and parent ids of all processes, from /proc or, without it, from `ps`."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
        )
        rows = [line.split() for line in listed.stdout.splitlines()]
        return [(int(pid), int(parent)) for pid, parent, state in rows if state[0] != "Z"]
    table = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The program's name is in parentheses and may contain anything, also parentheses.
            before, _, after = stat.read_text(errors="replace").rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent = after.split()[:2]
        if state not in "ZX":
            table.append((int(before.split()[0]), int(parent)))
    return table


class Server:
    """The base of all servers. A server given by its address is not stopped."""

    host = "127.0.0.1"

    def __init__(self, process: ServerProcess | None, *, port: int) -> None:
        self._process = process
        self.port = port

    @property
    def pid(self) -> int:
        return self._ours.pid

    @property
    def folder(self) -> Path:
        return self._ours.folder.path

    @property
    def _ours(self) -> ServerProcess:
        if self._process is None:
            raise Missing("this server was given by its address: it is not ours to stop or start")
        return self._process

    def stop(self) -> None:
        """Shut down permanently, and remove the files."""
        if self._process is not None:
            self._process.stop()
            self._process.folder.remove()

    def kill(self) -> None:
        self._ours.kill()

    def restart(self) -> None:
        """Start again with the same files on the same port; shut down first if it runs."""
        self._ours.stop()
        self._ours.start()

    def pause(self) -> None:
        """Stop answering without closing a connection, as a lost network would."""
        self._ours.pause()

    def resume(self) -> None:
        self._ours.resume()
