"""Hears what other processes commit, on PostgreSQL: a connection of its own, and LISTEN.

Hints only make it fast. While the connection is away nothing is heard, and whoever listens finds
out by looking, as on a database that cannot speak.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from headway.adapters.sql.connect.addresses import Connector
from headway.adapters.sql.connect.postgres import PostgresDriver
from headway.adapters.sql.connect.server_check import Purpose, RawConnection
from headway.adapters.sql.notice import CHANNEL, parse_notice
from headway.core.errors import DatabaseUnavailable
from headway.core.run.events import Event
from headway.log import event_log

PAGE_EVENT_COUNT: Final = 200
UNREAD_COUNT_MAX: Final = 10_000
# While much is said, it is read a hundred times a second, and not word by word.
READ_PAUSE_S: Final = 0.01
# A connection that only listens would never find out that its server is gone.
PING_S: Final = 5.0
RECONNECT_DELAY_S: Final = 1.0
# What is said to a paused process waits at the server, in a transaction that keeps VACUUM from its
# work. After this time the server ends it.
TCP_USER_TIMEOUT_MS: Final = 30_000
CONNECTION_ERRORS: Final[tuple[type[Exception], ...]] = (
    *PostgresDriver.errors,
    DatabaseUnavailable,
)
_EVENTS: Final = """
SELECT found.* FROM unnest($1::bigint[], $2::bigint[]) AS said (first_seq, last_seq),
LATERAL (
    SELECT seq, run_id, run_seq, key, lane, type, payload, at FROM events
    WHERE seq BETWEEN said.first_seq AND said.last_seq AND seq > $3 ORDER BY seq LIMIT $4
) AS found ORDER BY found.seq LIMIT $4
"""

log = event_log(__name__)


class NotifyListener:
    """Listens from `start` to `close`, in the event loop that started it; reconnects by itself."""

    def __init__(
        self,
        connector: Connector,
        *,
        writer_id: str,
        on_events: Callable[[Sequence[Event]], None],
    ) -> None:
        """`tell` is called with the events of others; those of `writer_id` are known already."""
        self._connector = connector
        self._writer_id = writer_id
        self._on_events = on_events
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._unread_ranges: deque[tuple[int, int]] = deque(maxlen=UNREAD_COUNT_MAX)
        self._notified_seq: int | None = None
        """Up to here all is told or about to be; None before the first connection."""

    def start(self) -> None:
        """Does nothing when it listens already."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="headway-ear")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        is_told = False
        while True:  # Until it is closed.
            try:
                connection = await self._connector.connect(Purpose.READ)
                is_told = False
                try:
                    await self._listen(connection)
                finally:
                    connection.terminate()
                self._connector.note_disconnect()
            except CONNECTION_ERRORS as error:
                if not is_told:
                    log.warning("hints_lost", extra={"reason": str(error)})
                is_told = True
            await asyncio.sleep(RECONNECT_DELAY_S)

    async def _listen(self, connection: RawConnection) -> None:
        """Until the connection breaks, or leads to a node that is no longer ours."""
        connection.add_termination_listener(lambda _: self._wake.set())
        async with asyncio.timeout(PING_S):
            await connection.execute(f"SET tcp_user_timeout = {TCP_USER_TIMEOUT_MS}")
            await connection.add_listener(CHANNEL, self._on_notice)
            await self._catch_up(connection)
        while not connection.is_closed() and self._connector.is_current(connection):
            self._wake.clear()
            async with asyncio.timeout(PING_S):
                await self._read_events(connection)
            await asyncio.sleep(READ_PAUSE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_S):
                    await self._wake.wait()

    async def _catch_up(self, connection: RawConnection) -> None:
        """What was committed while nobody listened was not said."""
        seq = await connection.fetchval("SELECT seq FROM stream WHERE id = 1")
        if self._notified_seq is not None and self._notified_seq < seq:
            self._unread_ranges.append((self._notified_seq + 1, seq))
        self._notified_seq = seq

    def _on_notice(self, _: RawConnection, __: int, ___: str, text: str) -> None:
        notice = parse_notice(text)
        if notice is None:
            return
        self._notified_seq = notice.last_seq
        if notice.writer_id != self._writer_id:
            self._unread_ranges.append((notice.first_seq, notice.last_seq))
            self._wake.set()

    async def _read_events(self, connection: RawConnection) -> None:
        """Tell what is unread; or, when there is nothing, ask whether the server is there."""
        said = list(self._unread_ranges)
        self._unread_ranges.clear()
        if not said:
            await connection.execute("SELECT 1")
            return
        first, last = zip(*said, strict=True)
        after_seq, is_more = 0, True
        while is_more:  # Until the last page: what is said meanwhile waits for the next call.
            rows = await connection.fetch(_EVENTS, first, last, after_seq, PAGE_EVENT_COUNT)
            is_more = len(rows) == PAGE_EVENT_COUNT
            if rows:
                after_seq = rows[-1]["seq"]
                # As after a commit of this process: a listener that fails is not our affair.
                asyncio.get_running_loop().call_soon(self._on_events, [Event(*row) for row in rows])
