"""A past for pictures: recent runs, moved to plausible earlier times.

The server has written all of it, by its own clock. Only the times are changed afterwards: a run
that took a tenth of a second took four minutes, this morning.
"""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

TIMES: Final = (
    ("events", "run_id", ("at",)),
    ("node_runs", "run_id", ("started_at", "finished_at")),
    ("flow_runs", "run_id", ("updated_at",)),
    ("interrupts", "run_id", ("asked_at",)),
    ("run_files", "run_id", ("at",)),
    ("runs", "id", ("queued_at", "started_at", "ended_at")),
)
"""Tables, the column that names the run, and the columns that contain instants."""
SECOND_US: Final = 1_000_000
BUSY_S: Final = 10


class When(NamedTuple):
    """How long ago the run was queued, for how long, and how long it took (so far, if it is
    running).
    """

    ago_s: float
    waited_s: float = 0.0
    took_s: float | None = None


def move(database: Path, run_id: str, when: When) -> None:
    """Stretch and shift all stored instants of the run."""
    with closing(sqlite3.connect(database, timeout=BUSY_S)) as connection, connection:
        [times] = connection.execute(
            "SELECT queued_at, started_at, ended_at FROM runs WHERE id = ?", (run_id,)
        )
        now = time.time_ns() // 1_000
        queued, started, ended = times
        queued_then = now - int(when.ago_s * SECOND_US)
        started_then = queued_then + int(when.waited_s * SECOND_US)
        took_us = now - started_then if when.took_s is None else int(when.took_s * SECOND_US)
        ended_then = now if ended is None else started_then + took_us
        started = queued if started is None else started
        marks = [(queued, queued_then), (started, started_then), (ended or now, ended_then)]
        for table, name, columns in TIMES:
            for column in columns:
                _move_column(connection, f"{table}.{name}.{column}", run_id, marks)
        # A run that need not wait is queued and started at the same instant.
        connection.execute("UPDATE runs SET queued_at = ? WHERE id = ?", (queued_then, run_id))
        connection.execute(
            "UPDATE events SET at = ? WHERE run_id = ? AND run_seq = 1", (queued_then, run_id)
        )


def _move_column(
    connection: sqlite3.Connection, place: str, run_id: str, marks: Sequence[tuple[int, int]]
) -> None:
    table, name, column = place.split(".")
    found = connection.execute(
        f"SELECT DISTINCT {column} FROM {table} WHERE {name} = ? AND {column} IS NOT NULL",  # noqa: S608
        (run_id,),
    ).fetchall()
    # First out of the way, so that no instant is moved twice.
    for sign, changed in ((-1, lambda at: -at), (1, lambda at: _then(at, marks))):
        for (at,) in found:
            connection.execute(
                f"UPDATE {table} SET {column} = ? WHERE {name} = ? AND {column} = ?",  # noqa: S608
                (changed(at), run_id, at if sign < 0 else -at),
            )


def _then(at: int, marks: Sequence[tuple[int, int]]) -> int:
    """Return the new position of an instant between two marks that are moved."""
    for (left, left_then), (right, right_then) in pairwise(marks):
        if at <= right:
            share = (at - left) / (right - left) if right > left else 1.0
            return left_then + int(share * (right_then - left_then))
    return marks[-1][1]
