"""A database with a run in every place, the doctor on it, and ways to break it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from headway.adapters.sql.read.read_doctor import SqlDoctorReader
from headway.adapters.sql.sql_store import SqlStore
from headway.bootstrap import SystemClock
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.inbox import ConsumeInbox
from headway.core.command.run.report import SaveProgress
from headway.core.command.run.settle import Complete
from headway.core.command.run.wait import Park
from headway.core.doctor.finding import Finding, Severity
from headway.core.ids import InstanceId, Instant, RunId
from headway.core.run.admission import OnConflict
from headway.services.upkeep.examination import DoctorProgress, examine
from headway.testing import FakeClock, a_message, claim_of, document
from tests.contract.scenes import instance, running, submitted


@dataclass(frozen=True, slots=True)
class Watch(SystemClock):
    """A clock as services have it."""

    clock: FakeClock

    def now(self) -> Instant:
        return self.clock()


async def findings(
    store: SqlStore, clock: FakeClock, checked: DoctorProgress | None = None
) -> list[Finding]:
    reader = SqlDoctorReader(store._database)
    found = examine(reader, Watch(clock), checked or DoctorProgress(), lambda: None)
    return [finding async for finding in found]


async def violations(store: SqlStore, clock: FakeClock) -> list[tuple[str, str, str]]:
    """All that is found, of which nothing may be a mere note."""
    found = await findings(store, clock)
    assert all(finding.severity is Severity.VIOLATION for finding in found)
    return sorted((finding.promise, finding.subject, finding.sentence) for finding in found)


@dataclass(frozen=True, slots=True)
class Scene:
    """A run for each way to be; of those with a key of their own, `behind` waits for `running`."""

    holder: InstanceId
    running: RunId
    behind: RunId
    ready: RunId
    parked: RunId
    cancelling: RunId
    ended: RunId


async def set_scene(store: SqlStore) -> Scene:
    holder = await instance(store)
    ended = await running(store, "ended", by=holder)
    await store.apply(a_message(ended.run_id))
    await store.apply(Complete(claim_of(ended)))
    parked = await running(store, "parked", by=holder)
    await store.apply(Park(claim_of(parked)))
    cancelling = await running(store, "cancelling", by=holder)
    await store.apply(RequestCancel(run_id=cancelling.run_id))
    one = await running(store, "ann", by=holder)
    await store.apply(a_message(one.run_id))
    assert await store.apply(ConsumeInbox(claim_of(one)))
    await store.apply(SaveProgress(claim_of(one), document({"page": 2})))
    return Scene(
        holder=holder,
        running=one.run_id,
        behind=await submitted(store, "ann", on_conflict=OnConflict.ENQUEUE),
        ready=await submitted(store, "bob", job="fetch"),
        parked=parked.run_id,
        cancelling=cancelling.run_id,
        ended=ended.run_id,
    )


async def plant(store: SqlStore, *statements: sa.sql.expression.Executable) -> None:
    """Write past the store and, on SQLite, past the constraints too."""
    async with store._database.open_write_session() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        if is_sqlite:
            await connection.execute(sa.text("PRAGMA ignore_check_constraints = ON"))
        for statement in statements:
            await connection.execute(statement)
        await connection.commit()
        if is_sqlite:
            await connection.execute(sa.text("PRAGMA ignore_check_constraints = OFF"))


def change(table: sa.Table, where: Sequence[Any] = (), /, **columns: Any) -> sa.Update:
    return sa.update(table).where(*where).values(**columns)
