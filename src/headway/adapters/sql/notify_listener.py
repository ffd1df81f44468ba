"""Receive the events that other processes commit, on PostgreSQL.

The listener has a connection of its own, on which it executes LISTEN. Notices only reduce latency.
While the connection is lost no notices arrive, and the process finds new events by polling, as on a
database without notifications.
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
# While many notices arrive, their events are read a hundred times per second, not once per notice.
READ_PAUSE_S: Final = 0.01
# A connection that only listens would never detect that its server is gone.
PING_S: Final = 5.0
RECONNECT_DELAY_S: Final = 1.0
# Notices to a paused process wait at the server, in a transaction that holds back VACUUM. After
# this time the server ends the connection.
TCP_USER_TIMEOUT_MS: Final = 30_000
CONNECTION_ERRORS: Final[tuple[type[Exception], ...]] = (
    *PostgresDriver.errors,
    DatabaseUnavailable,
)
_EVENTS: Final = """
SELECT event.* FROM unnest($1::bigint[], $2::bigint[]) AS span (first_seq, last_seq),
LATERAL (
    SELECT seq, run_id, run_seq, key, lane, type, payload, at FROM events
    WHERE seq BETWEEN span.first_seq AND span.last_seq AND seq > $3 ORDER BY seq LIMIT $4
) AS event ORDER BY event.seq LIMIT $4
"""

log = event_log(__name__)


class NotifyListener:
    """Listens from `start` to `close`, in the event loop that called `start`, and reconnects."""

    def __init__(
        self,
        connector: Connector,
        *,
        writer_id: str,
        on_events: Callable[[Sequence[Event]], None],
    ) -> None:
        """Create the listener. `on_events` gets the events of all writers except `writer_id`."""
        self._connector = connector
        self._writer_id = writer_id
        self._on_events = on_events
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._unread_ranges: deque[tuple[int, int]] = deque(maxlen=UNREAD_COUNT_MAX)
        self._notified_seq: int | None = None
        """All events up to this `seq` are delivered or queued. None before the first connection."""

    def start(self) -> None:
        """Start listening. Do nothing if the listener was started before."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="headway-notify-listener")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        is_loss_logged = False
        while True:  # Until `close` cancels the task.
            try:
                connection = await self._connector.connect(Purpose.READ)
                is_loss_logged = False
                try:
                    await self._listen(connection)
                finally:
                    connection.terminate()
                self._connector.note_disconnect()
            except CONNECTION_ERRORS as error:
                if not is_loss_logged:
                    log.warning("notify_connection_lost", extra={"reason": str(error)})
                is_loss_logged = True
            await asyncio.sleep(RECONNECT_DELAY_S)

    async def _listen(self, connection: RawConnection) -> None:
        """Listen until the connection breaks or its node is no longer the primary."""
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
        """Queue the events that were committed while no connection was listening."""
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
        """Deliver the unread events. If there are none, check that the server answers."""
        ranges = list(self._unread_ranges)
        self._unread_ranges.clear()
        if not ranges:
            await connection.execute("SELECT 1")
            return
        first_seqs, last_seqs = zip(*ranges, strict=True)
        after_seq, has_more = 0, True
        # Until the last page. Notices that arrive in the meantime wait for the next call.
        while has_more:
            rows = await connection.fetch(
                _EVENTS, first_seqs, last_seqs, after_seq, PAGE_EVENT_COUNT
            )
            has_more = len(rows) == PAGE_EVENT_COUNT
            if rows:
                after_seq = rows[-1]["seq"]
                # Called by the event loop, as after a commit of this process, so that an error in a
                # callback does not end this task.
                asyncio.get_running_loop().call_soon(self._on_events, [Event(*row) for row in rows])
