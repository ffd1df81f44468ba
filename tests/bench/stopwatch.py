"""Time and CPU time. Nothing but the standard library: other systems' environments use it too."""

import time


class Stopwatch:
    """Runs inside its `with` block."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0
        self.cpu_s = 0.0

    def __enter__(self) -> None:
        self._started_s = time.perf_counter()
        self._started_cpu_s = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.elapsed_s += time.perf_counter() - self._started_s
        self.cpu_s += time.process_time() - self._started_cpu_s
