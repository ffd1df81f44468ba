"""A database with a run in every state, the doctor on it, and ways to corrupt it."""

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
from tests.contract.scenes import register_instance, start_run, submit_run


@dataclass(frozen=True, slots=True)
class FixedClock(SystemClock):
    """A clock as services use it, which shows the time of the test."""

    clock: FakeClock

    def now(self) -> Instant:
        return self.clock()


async def findings(
    store: SqlStore, clock: FakeClock, checked: DoctorProgress | None = None
) -> list[Finding]:
    reader = SqlDoctorReader(store._database)
    reported = examine(reader, FixedClock(clock), checked or DoctorProgress(), lambda: None)
    return [finding async for finding in reported]


async def violations(store: SqlStore, clock: FakeClock) -> list[tuple[str, str, str]]:
    """Return all findings, none of which may be a note."""
    reported = await findings(store, clock)
    assert all(finding.severity is Severity.VIOLATION for finding in reported)
    return sorted((finding.promise, finding.subject, finding.sentence) for finding in reported)


@dataclass(frozen=True, slots=True)
class Scene:
    """A run in each state. `behind` waits for `running`; the others have keys of their own."""

    holder: InstanceId
    running: RunId
    behind: RunId
    ready: RunId
    parked: RunId
    cancelling: RunId
    ended: RunId


async def build_scene(store: SqlStore) -> Scene:
    holder = await register_instance(store)
    ended = await start_run(store, "ended", by=holder)
    await store.apply(a_message(ended.run_id))
    await store.apply(Complete(claim_of(ended)))
    parked = await start_run(store, "parked", by=holder)
    await store.apply(Park(claim_of(parked)))
    cancelling = await start_run(store, "cancelling", by=holder)
    await store.apply(RequestCancel(run_id=cancelling.run_id))
    run = await start_run(store, "ann", by=holder)
    await store.apply(a_message(run.run_id))
    assert await store.apply(ConsumeInbox(claim_of(run)))
    await store.apply(SaveProgress(claim_of(run), document({"page": 2})))
    return Scene(
        holder=holder,
        running=run.run_id,
        behind=await submit_run(store, "ann", on_conflict=OnConflict.ENQUEUE),
        ready=await submit_run(store, "bob", job="fetch"),
        parked=parked.run_id,
        cancelling=cancelling.run_id,
        ended=ended.run_id,
    )


async def write_directly(store: SqlStore, *statements: sa.sql.expression.Executable) -> None:
    """Write around the store and, on SQLite, around the constraints as well."""
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
