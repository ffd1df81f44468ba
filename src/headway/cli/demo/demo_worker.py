"""`python -m headway.cli.demo.demo_worker …`: `headway worker` that exits with the demo.

Its standard input is a pipe from the demo, which writes nothing to it. The pipe closes when the
demo exits for any reason, even if it is killed.
"""

import os
import signal
import sys
import threading

from headway.cli.main import main


def exit_when_stdin_closes() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=exit_when_stdin_closes, daemon=True).start()
    sys.argv[:] = ["headway", "worker", *sys.argv[1:]]
    main()
