"""`python -m headway.cli.demo.demo_worker …`: `headway worker`, which ends with the demo.

Its input is a pipe to which nobody writes. It closes when the demo ends, however that ends: killed,
too.
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
