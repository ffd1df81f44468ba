"""The store on a SQL database: one writer for all changes, and one reader per aggregate."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.connect.sqlite import Durability
from headway.adapters.sql.read.read_board import SqlBoardReader
from headway.adapters.sql.read.read_doctor import SqlDoctorReader
from headway.adapters.sql.read.read_events import SqlEventReader
from headway.adapters.sql.read.read_files import SqlFileReader
from headway.adapters.sql.read.read_flows import SqlFlowReader
from headway.adapters.sql.read.read_runs import SqlRunReader
from headway.adapters.sql.read.read_workers import SqlWorkerReader
from headway.adapters.sql.schema import prepare_schema, translate_errors
from headway.adapters.sql.write.links.link_source import create_link_source
from headway.adapters.sql.write.writer import Writer
from headway.core.command.protocol import Command
from headway.core.ids import InstanceId, Instant
from headway.core.run.events import Event
from headway.ports.store import EventOrigin
from headway.ports.write_tracker import note_written

if TYPE_CHECKING:
    from headway.adapters.sql.notify_listener import NotifyListener

A = TypeVar("A")


class SqlStore:
    """The store of one process on a SQL database. Open it with `open_store`, and close it."""

    def __init__(
        self,
        database: Database,
        writer: Writer,
        listeners: "Listeners",
        *,
        notify_listener: "NotifyListener | None" = None,
    ) -> None:
        """Create the store. `notify_listener` receives the events of other processes.

        `notify_listener` is None if the database cannot send notices.
        """
        self._database = database
        self._listeners = listeners
        self._notify_listener = notify_listener
        self.writer = writer
        self.runs = SqlRunReader(database)
        self.board = SqlBoardReader(database)
        self.events = SqlEventReader(database)
        self.files = SqlFileReader(database)
        self.flows = SqlFlowReader(database)
        self.workers = SqlWorkerReader(database)
        self.doctor = SqlDoctorReader(database)

    @property
    def cluster_id(self) -> str | None:
        """The id that all processes on this database share, or None on SQLite."""
        connector = self._database.connector
        return None if connector is None else connector.cluster_id

    @property
    def is_idle(self) -> bool:
        """True if nothing is being written or read and every answer was sent to its caller."""
        return self.writer.queue.is_idle and not self._database.is_reading

    @property
    def conflict_count(self) -> int:
        return self.writer.conflict_count

    @property
    def lost_lease_count(self) -> int:
        return max(0, self.writer.queue.lost_lease_count)

    async def apply(self, command: Command[A]) -> A:
        answer: A = await self.writer.queue.put(command)
        note_written()
        return answer

    def keep_lease(
        self,
        instance_id: InstanceId,
        *,
        ttl_s: float,
        on_renewed: Callable[[float | None], None],
    ) -> Callable[[], None]:
        return self.writer.queue.keep_lease(instance_id, ttl_s=ttl_s, on_renewed=on_renewed)

    def renew_lease(self) -> None:
        self.writer.queue.renew_lease()

    def piggyback(
        self,
        source: Callable[[Command[Any]], Command[A] | None],
        on_answer: Callable[[Any, A], None],
    ) -> Callable[[], None]:
        return self.writer.queue.piggyback(source, on_answer)

    def listen(
        self, listener: Callable[[Sequence[Event]], None], *, origin: EventOrigin = EventOrigin.ALL
    ) -> Callable[[], None]:
        # A process that listens to its own events only does not need the extra connection.
        if self._notify_listener is not None and origin is not EventOrigin.OWN:
            self._notify_listener.start()
        return self._listeners.add(listener, origin=origin)

    async def close(self) -> None:
        """Commit the queued commands, then close all connections."""
        if self._notify_listener is not None:
            await self._notify_listener.close()
        await self.writer.close()
        await self._database.close()


class Listeners:
    """The event listeners of this process.

    Each receives the events of this process, of other processes, or of both.
    """

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[EventOrigin, Callable[[Sequence[Event]], None]]] = {}

    def add(
        self, listener: Callable[[Sequence[Event]], None], *, origin: EventOrigin
    ) -> Callable[[], None]:
        ticket = object()
        self._listeners[ticket] = origin, listener

        def stop() -> None:
            self._listeners.pop(ticket, None)

        return stop

    def notify(self, events: Sequence[Event], *, origin: EventOrigin) -> None:
        for wanted_origin, listener in list(self._listeners.values()):
            if wanted_origin in (origin, EventOrigin.ALL):
                listener(events)


async def open_store(
    urls: Sequence[str],
    *,
    durability: Durability = "process",
    now: Callable[[], Instant] | None = None,
) -> SqlStore:
    """Open the store. Raise ConfigurationError or DatabaseUnavailable if that fails.

    After an error, no connection is left open. `now` replaces the database's clock, for tests.
    """
    addresses = parse_addresses(urls)
    database = Database(addresses, durability=durability, now=now)
    listeners = Listeners()
    writer_id = str(uuid4())
    try:
        await prepare_schema(database, addresses[0])
        writer = Writer(
            writer_id=writer_id,
            link_source=create_link_source(database, addresses[0]),
            now=now,
            on_committed=partial(listeners.notify, origin=EventOrigin.OWN),
        )
        with translate_errors(addresses[0]):
            await writer.start()
    except BaseException:
        await database.close()
        raise
    notify_listener = _create_notify_listener(database, writer_id, listeners)
    return SqlStore(database, writer, listeners, notify_listener=notify_listener)


def _create_notify_listener(
    database: Database, writer_id: str, listeners: Listeners
) -> "NotifyListener | None":
    if database.connector is None or database.driver != "postgres":
        return None
    # Imported here, because its driver is an optional extra.
    from headway.adapters.sql.notify_listener import NotifyListener  # noqa: PLC0415

    on_events = partial(listeners.notify, origin=EventOrigin.OTHERS)
    return NotifyListener(database.connector, writer_id=writer_id, on_events=on_events)
