"""The engine's part of the page, and its picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bench.engine.chart import chart
from tests.bench.engine.environments import version_of
from tests.bench.engine.goals import Verdict
from tests.bench.engine.order import Work
from tests.bench.engine.results import Result
from tests.bench.engine.tables import TITLES, cells, headings
from tests.bench.machine import Machine
from tests.bench.page import CHART, PAGE, Part, replace_part, table
from tests.bench.places import Places

INTRODUCTION: Final = """\
## The engine, beside other systems

The same work, done by headway and by other systems that people use for it, in one run on one
machine. Rounds alternate: each system in turn, then each again. A figure is the median of its
rounds (lowest-highest); a ratio is taken within each round. Each measurement has a new process
and an empty database. **CPU** is that of the worker's process; a server's own is not in it.

- **W2**: jobs that do nothing, all of them queued before the clock starts; one worker process,
  until the store says that the last has ended.
- **W3**: from the call that submits a job to the job's first line, on an idle worker in the same
  process, unless it says otherwise. Pauses of 5 to 30 ms lie between.
- **W4**: 1,000 keys in turn, one job at a time per key, in order, 50 at once overall, each job
  sleeping 1 ms. Jobs that began too early, out of order or above the limit are counted as
  violations.
- **W6**: a process is killed (SIGKILL) while it runs 100 jobs: until all have begun again in
  another one, which is there already and idle, with default settings. All systems wait at the
  same time.
- **Sleepers**: 10,000 jobs in `ctx.sleep`: the process's memory above that of the same engine
  without them, and how late they go on when their wakes are spread over a minute.
- **Idle**: the share of a core that an engine takes while 10,000 runs are queued and none can
  start.
- **Start-up**: from the start of the program, imports and all, to the first line of its first
  job, where its modules are compiled already, as after any start but the first.

No two of these systems do quite the same, so read the figures with care:

- headway writes an event for every move of a run, fences every write, and keeps order per key in
  all of it; the others promise other things, mostly fewer. W4 is run with those that have a queue
  per key to switch on: DBOS (partitions) and Procrastinate (locks). DBOS gets fewer jobs there
  than there are keys, to be done in time: its order is not put to the test.
- PostgreSQL keeps every commit (fsync on) for all who use it. On SQLite a commit survives the end
  of the process, or also a power cut: `process` is the default of headway (synchronous = NORMAL)
  and Huey with `fsync=False` (OFF); `power` is headway if asked, and Huey and DBOS as they come
  (FULL). Redis keeps nothing on disk here, so its users are a reference, not rivals.
- Settings were chosen by hand and not searched for, so each system may have better ones: 100 jobs
  at once for headway, DBOS, SAQ and arq, 50 for Procrastinate, batches of 500 for PgQueuer, one
  thread for Huey, one process without forks for RQ.
- Who polls was told to poll more often than by default: Huey every ms in W3 and up to every 50 ms
  in W2, DBOS every 10 ms in W3 and every 50 ms else, arq every 10 ms.
- In W6, DBOS is started again under its own name, so its time has a start-up in it; Procrastinate
  is asked for stalled jobs every second, which its users must arrange. Huey and the systems on
  Redis are not measured there.
"""

OF_FLOWS: Final = frozenset({Work.FLOWS, Work.PARKED})
INTRODUCTION_OF_FLOWS: Final = """\
## Flows, beside another system

Measured as the engine is, one round after another.

- **W5**: flows of ten steps that do nothing, 100 at once; each step is durable before the next
  begins. The tasks of headway are queued before the clock starts, the workflows of DBOS are
  started under it. Where a step goes to a worker, that is one process more on the same machine;
  where a list becomes child tasks, a step is a whole child. The aim is 20,000 steps/s of functions
  on SQLite.
- **Parked tasks**: the rate of W5's flows of functions beside 10,000 tasks that wait for a time,
  an event or a person, of the rate without them; what parked tasks weigh in the process (100,000
  of them, unless `--quick`); and how late timers go on, 167 a second (a hundred thousand in ten
  minutes), beside the 10,000.
"""


def write_engine_part(
    results: Sequence[Result],
    verdicts: Sequence[Verdict],
    excuses: Sequence[str],
    *,
    places: Places,
    machine: Machine,
    command: str,
    page: Path = PAGE,
    picture: Path = CHART,
) -> None:
    """Return the works that were measured; flows have a part and a picture of their own."""
    measured_on = [*machine.lines(), *places.versions.items()]
    of_flows = [result for result in results if result.work in OF_FLOWS]
    of_others = [result for result in results if result.work not in OF_FLOWS]
    flow_picture = picture.with_stem(f"{picture.stem}-flows")
    parts: list[tuple[Part, str, list[Result], Path]] = [
        ("engine", INTRODUCTION, of_others, picture),
        ("flows", INTRODUCTION_OF_FLOWS, of_flows, flow_picture),
    ]
    for part, introduction, chosen, drawing in parts:
        if not chosen:
            continue
        lines = [introduction, f"Repeat it with `{command}`.\n"]
        drawn = chart(chosen)
        if drawn:
            drawing.write_text(drawn, encoding="utf-8")
            lines.append(f"![headway beside other systems: the figures below]({drawing.name})\n")
        lines += [*table(("measured on", ""), [*measured_on, *_systems(chosen)]), ""]
        for work in Work:
            lines += _section(work, chosen, verdicts)
        lines += [f"Not measured: {reason}\n" for reason in excuses]
        replace_part(part, lines, path=page)


def _systems(results: Sequence[Result]) -> list[tuple[str, str]]:
    contestants = (result.entry.contestant for result in results)
    others = {one.title: one.system for one in contestants if not one.is_ours}
    return [(title, version_of(system)) for title, system in sorted(others.items())]


def _section(work: Work, results: Sequence[Result], verdicts: Sequence[Verdict]) -> list[str]:
    chosen = [cells(result) for result in results if result.work is work]
    if not chosen:
        return []
    judged = [f"- {verdict}" for verdict in verdicts if verdict.goal.work is work]
    return [f"### {TITLES[work]}\n", *table(headings(work), chosen), "", *judged, ""]
