"""Become the server named on the command line, and make sure that it ends with its owner.

Run as a separate program, by path, with the standard library only. It starts as the owner's user,
drops its rights, arranges to be killed with its owner, and then becomes the server (same process
id).
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
        if os.getppid() != int(owner_pid):  # The owner ended before the signal was arranged.
            sys.exit(1)
    elif os.fork() == 0:
        _kill_parent_at_end_of_input()
    os.execv(command[0], command)  # noqa: S606 - Becoming another program is the whole point.


def _kill_parent_at_end_of_input() -> None:
    """Wait for the owner's end of our standard input to close. The kernel closes it at its exit."""
    server_pid = os.getppid()
    os.setsid()
    while os.read(0, 1):
        pass
    if os.getppid() == server_pid:
        os.kill(server_pid, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
