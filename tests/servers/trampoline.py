"""Becomes the server named on its command line, and sees to it that the server dies with its owner.

Run as a program of its own, by path, with the standard library only: it starts as the owner's
user, gives its rights away, arranges its death, and then *is* the server (same process id).
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    owner_pid, user_id, notice, *command = sys.argv[1:]
    if user_id != "-":
        os.setgroups([])
        os.setgid(int(user_id))
        os.setuid(int(user_id))
    if notice == "signal":
        # After the change of user, which would clear it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(owner_pid):  # It died before we could ask to be told.
            sys.exit(1)
    elif os.fork() == 0:
        _kill_parent_at_end_of_input()
    os.execv(command[0], command)  # noqa: S606 - Becoming another program is the whole point.


def _kill_parent_at_end_of_input() -> None:
    """Wait for the owner's end of our standard input to close: at its death, the kernel does."""
    server_pid = os.getppid()
    os.setsid()
    while os.read(0, 1):
        pass
    if os.getppid() == server_pid:
        os.kill(server_pid, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
