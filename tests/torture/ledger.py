"""Ledgers that jobs write outside the database: a file per process, a line per moment.

The times are those of the monotonic clock, which all processes of one machine share.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from headway import BlockingRunContext, RunContext
from headway.core.ids import Key, LaneName, RunId

ACCEPTED: Final = "accepted"
BEGIN: Final = "begin"
STEP: Final = "step"
WAIT: Final = "wait"
"""The job is about to wait without a slot. The next step has one again."""
END: Final = "end"


class Line(NamedTuple):
    word: str
    run_id: RunId
    key: Key
    generation: int
    lane: LaneName
    at_ns: int
    pid: int


class Ledger:
    def __init__(self, folder: Path) -> None:
        name = f"{os.getpid()}-{time.monotonic_ns()}.ledger"
        self._file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def accepted(self, run_id: RunId) -> None:
        self._write(ACCEPTED, run_id)

    @contextmanager
    def signed(self, ctx: RunContext | BlockingRunContext, lane: str) -> Iterator["Signature"]:
        """Record an execution from its beginning to its end, however it ends."""
        signature = Signature(self, ctx, lane)
        signature.write(BEGIN)
        try:
            yield signature
        finally:
            signature.write(END)

    def _write(self, *words: object) -> None:
        # A single call, so that a line is complete or absent, whenever the process is killed.
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Signature:
    def __init__(self, ledger: Ledger, ctx: RunContext | BlockingRunContext, lane: str) -> None:
        self._ledger = ledger
        self._ctx = ctx
        self._lane = lane

    def write(self, word: str) -> None:
        ctx = self._ctx
        self._ledger._write(
            word, ctx.run_id, ctx.key, ctx.generation, self._lane, time.monotonic_ns()
        )


def read_ledgers(folder: Path) -> list[Line]:
    """Return the lines of all processes, ordered by time."""
    lines = []
    for path in folder.glob("*.ledger"):
        pid = int(path.name.partition("-")[0])
        for text in path.read_text().splitlines():
            word, run_id, *more = text.split()
            if word == ACCEPTED:
                continue
            key, generation, lane, at_ns = more
            lines.append(
                Line(
                    word, RunId(run_id), Key(key), int(generation), LaneName(lane), int(at_ns), pid
                )
            )
    return sorted(lines, key=lambda line: line.at_ns)
