"""The statements of a life cycle, as the store itself sends them to its link.

The raw side repeats them for other runs. It therefore always writes the same rows by the same
statements as the current store: there is no copy of them that could become outdated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.statements import Insert, PlannedWrite, Row, Update, Write
from headway.adapters.sql.write.links.driver_link import Commit
from headway.core.ids import InstanceId
from tests.bench.work import cycle_once


class Recorded(NamedTuple):
    statement: Write
    row: Row


Transaction = Sequence[Recorded]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The writes of the store for one run: three transactions."""

    submit: Transaction
    claim: Transaction
    settle: Transaction


class RecordingLink:
    """A wrapper of the writer's link that records the statements."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._open: list[Recorded] = []
        self.transactions: list[Transaction] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def write_all(self, plan: Sequence[PlannedWrite]) -> Any:
        self._open += [Recorded(write.statement, row) for write in plan for row in write.rows]
        return self._link.write_all(plan)

    def commit(self, batch: Commit | None = None, /) -> Any:
        self.transactions.append(self._open)
        self._open = []
        return self._link.commit(batch)


async def record(store: SqlStore, instance_id: InstanceId) -> Pattern:
    """Take one run through its life cycle and record the writes."""
    recording: Any = RecordingLink(store.writer._link)
    store.writer._link = recording
    await cycle_once(store, instance_id)
    submit, claim, settle = recording.transactions
    return Pattern(submit, claim, settle)


class RawRun(NamedTuple):
    """The values that differ from run to run."""

    seq: int
    id: str
    key: str
    token: str


# The columns that differ from run to run, with the field of RawRun that each contains. `_EVENT` is
# the event's own number. All others are as recorded, the instants included.
_EVENT: Final = len(RawRun._fields)
_VARYING: Final[Mapping[str, Mapping[str, int]]] = {
    "runs": {
        "seq": RawRun._fields.index("seq"),
        "ready_seq": RawRun._fields.index("seq"),
        "id": RawRun._fields.index("id"),
        "key": RawRun._fields.index("key"),
        "head_key": RawRun._fields.index("key"),
        "token": RawRun._fields.index("token"),
    },
    "events": {
        "seq": _EVENT,
        "run_id": RawRun._fields.index("id"),
        "key": RawRun._fields.index("key"),
    },
}


def rows_for(recorded: Recorded, runs: Sequence[RawRun], *, seq: int) -> list[Row]:
    """Return the recorded row for each of `runs`, whose events are numbered after `seq`."""
    varying = _VARYING[recorded.statement.table.name]
    places = [
        (place, varying[name])
        for place, (name, value) in enumerate(_named(recorded))
        # Null stays null: a column that is cleared, or was not set yet.
        if name in varying and value not in (None, "")
    ]
    template = list(recorded.row)
    rows: list[Row] = []
    for number, run in enumerate(runs, start=seq + 1):
        row, values = template.copy(), (*run, number)
        for place, value in places:
            row[place] = values[value]
        rows.append(tuple(row))
    return rows


def _named(recorded: Recorded) -> Iterator[tuple[str, Any]]:
    match recorded.statement:
        case Insert(columns=columns):
            names = columns
        case Update(sets=sets, guards=guards):
            names = (*sets, *guards)
        case _:
            raise AssertionError(f"a life cycle deletes nothing: {recorded.statement}")
    return zip(names, recorded.row, strict=True)
