"""Write `docs/torture.md`: a column for each torture and backend, with its latest counts.

It is written after each torture, so that an aborted script leaves the results so far. The other
columns are not changed.
"""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

RECORD: Final = Path(__file__).parents[2] / "docs" / "torture.md"
HEADER: Final = """# What it survived

Each column is made by `python -m tests.torture NAME --full --record` and says when; the last one on
{machine}. `make torture` runs all of them, `make torture SIZE=` a shorter form, and
`python -m tests.torture engines --backends sqlite` that of one.

- **claims**: 8 processes submit, claim and complete runs over 500 keys in a lane limited to 16.
- **kills**: the same, while one process is killed (SIGKILL) and replaced at each of so many random
  moments; leases last 3 s.
- **failover**: 4 processes on a pair of servers that fails over (PostgreSQL: a streaming pair, the
  primary is killed and its standby promoted; MariaDB: `read_only` is switched) and back, so many
  times. Each time the old primary comes back alone, able to write, and must be left alone.
- **hundred**: 100 submissions for one key at the same instant, from 4 processes, so many times: one
  is accepted, the others are told which.
- **engines**: 3 processes, each a whole `Headway`, work on 200 keys in 3 lanes while they are
  killed and replaced, and paused (SIGSTOP) for longer than their leases of 2 s. Their jobs take
  steps, fail and are tried again, wait without a slot, ask questions, and are cancelled.
- **steering**: runs on 3 instances are answered, spoken to and cancelled from a fourth while Redis
  is killed, paused, emptied (`FLUSHALL`) and loses its connections by turns (*kills*), and while
  masters of a cluster of three with three replicas are killed (*failovers*).
- **stopping**: as *engines*, with Redis, and with pauses alone.
- **machines**: so many random histories, of single commands and of batches each, on the store and
  on a small model of it, which must agree on every answer and on every row.
- **flows**: so many random flows: a third of them undisturbed, a third loaded again after every
  commit, and a third with a process that dies after every commit. Each must come to the rows and
  to the shared state that a second, plainer interpreter comes to.

Afterwards the event stream is replayed and compared with what the processes wrote down themselves,
and for `engines` the doctor looks at the database. From *lost* to *leaked*, every figure must be 0.
Those of
`engines` alone:

- *pauses in a write*: the process was paused in the middle of a transaction. On SQLite nobody else
  can write until it wakes, so the leases of all run out; PostgreSQL ends such a transaction itself.
- *overtaken*: executions that were under way when their process was paused, and lost their claim.
- *poisoned*: runs whose process died three times before their first checkpoint. A few runs kill
  every process that executes them. All of those runs must be poisoned.
- *kills in flight*: kills that hit a process in the middle of a run. If less than half of the kills
  do, the record counts a fault, because the torture would prove nothing.
- *ran on ms max*: the longest that a job was at work after its process had woken, or its claim had
  ended. More than a heartbeat, a third of the lease, is counted as *ran on*.
- *stale words*: results and events that were accepted from a claim that was not in force.
- *unclaimed*: moments at which a job was at work before its claim, or without a slot.
- *two at work*: by the ledgers alone, moments with two of a key, or too many of a lane, at work.
- *outages*, *woke ms p99*: how often Redis was broken, and how long after a word, or after the end
  of the outage that it fell into, the run had heard it.
- *leaked*: slots and instances that were left when all was over.

"""
SERVER: Final = "\n## The server\n"
SERVER_HEADER: Final = """
Each row is made by `python -m tests.torture.server --full --record --only NAME` and says when;
without `--only` all of them are.

- **cuts**: a client of the event stream is cut at so many random points, across restarts of the
  server, SIGKILLs of its process, a second server on the same database, and retention. An event
  that was missed, repeated or out of order is a fault; a *resync* tells it that what it has not
  seen is gone.
- The other rows are schemathesis over the groups of the OpenAPI document, with all of its checks
  but one: a schema cannot say which jobs are registered. An answer that the document does not tell
  of, or a server error, is a fault.

"""
Column = dict[str, str]
"""The value of each row."""


def record(heading: str, figures: Column, *, order: Sequence[str]) -> None:
    """Write a column into the page, in place of the previous one."""
    page, server, server_part = _page().partition(SERVER)
    columns = _columns(page)
    columns[heading] = {"made": datetime.now(tz=UTC).date().isoformat()} | figures
    machine = (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )
    known = [name for name in order if name in columns]
    rows = [["", *known], ["---"] * (1 + len(known))]
    for word in columns[heading]:
        rows += [[word, *(columns[name].get(word, "") for name in known)]]
    page = HEADER.format(machine=machine) + "\n".join(map(_line, rows)) + "\n"
    RECORD.write_text(page + server + server_part)


class Row(NamedTuple):
    """A torture of the server: the number of operations, of repetitions, and the result."""

    name: str
    operations: str
    how_many: str
    faults: str


def record_server(row: Row) -> None:
    """Write a row below all the columns, in place of the previous one.

    Other rows are not changed.
    """
    page, _, before = _page().partition(SERVER)
    found = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in before.splitlines()
        if line.startswith("| ")
    ]
    kept = {name: more for name, *more in found[2:]}
    kept[row.name] = [datetime.now(tz=UTC).date().isoformat(), *row[1:]]
    headings = ("", "made", "operations", "how many", "faults")
    table = [headings, ("---", "---", "---:", "---:", "---:")]
    lines = "\n".join(_line(one) for one in (*table, *((name, *kept[name]) for name in kept)))
    RECORD.write_text(f"{page}{SERVER}{SERVER_HEADER}{lines}\n")


def _page() -> str:
    return RECORD.read_text() if RECORD.exists() else ""


def _columns(page: str) -> dict[str, Column]:
    """Return the columns of the page by their headings."""
    table = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    if not table:
        return {}
    headings, _, *rows = [[cell.strip() for cell in line] for line in table]
    return {
        heading: {row[0]: row[place] for row in rows if row[place]}
        for place, heading in enumerate(headings)
        if heading
    }


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
