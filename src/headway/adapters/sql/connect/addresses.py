"""The one way in which a connection to a server is made, for one address and for several alike."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakKeyDictionary

from headway.adapters.sql.connect.dsn import Address
from headway.adapters.sql.connect.lineage import (
    BEHIND_REASONS,
    NewestState,
    NodeChoice,
    StateTracker,
    StreamState,
    choose_node,
    refusal_reason,
)
from headway.adapters.sql.connect.server_check import Purpose, RawConnection, Server
from headway.core.errors import (
    ConfigurationError,
    DatabaseBehind,
    DatabaseUnavailable,
    SchemaMismatch,
)
from headway.log import event_log

PROBE_TIMEOUT_S: Final = 5.0
PROBE_ALL_INTERVAL_S: Final = 30.0
CONNECT_ATTEMPT_COUNT_MAX: Final = 3

log = event_log(__name__)


@dataclass(frozen=True, slots=True)
class _Node:
    """A writable node, with the connection on which it said so."""

    address: Address
    connection: RawConnection
    stream: StreamState | None


@dataclass(slots=True)
class _ProbeResult:
    """What one walk over the addresses has found so far."""

    nodes: dict[str, _Node] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    unreachable_count: int = 0

    def to_error(self) -> DatabaseUnavailable:
        is_behind = any(reason in BEHIND_REASONS for reason in self.reasons.values())
        return DatabaseBehind(self.reasons) if is_behind else DatabaseUnavailable(self.reasons)


@dataclass(frozen=True, slots=True)
class AcceptedPrimary:
    """The primary that all processes use from now on."""

    address: str
    epoch: int
    seq: int


class Connector:
    """Connects to the first address, in the given order, that holds the newest state writable.

    Usable from several threads and event loops at once. Each call takes what is remembered before
    it reads any node, decides by it, and remembers its choice only if nobody else has moved on in
    the meantime; else it looks again.

    The walk ends at home when home is as expected. It goes over all addresses when there may be
    something to learn: at the first call, when home does not answer, after a connection was lost,
    and, while an address is silent, every 30 s: behind it there may be a newer primary.
    """

    def __init__(
        self, addresses: Sequence[Address], *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        assert addresses
        self._addresses = tuple(addresses)
        self._server = _create_server(self._addresses[0])
        self._clock_s = clock_s
        self._tracker = StateTracker()
        self._lock = threading.Lock()  # Never held across an await.
        self._probe_all_at_s = float("-inf")
        self._connection_addresses: WeakKeyDictionary[RawConnection, str] = WeakKeyDictionary()

    async def connect(self, purpose: Purpose) -> RawConnection:
        """A new connection, the caller's to close; `DatabaseUnavailable` says why there is none."""
        for _ in range(CONNECT_ATTEMPT_COUNT_MAX):
            connection = await self._try_connect(purpose)
            if connection is not None:
                return connection
        raise DatabaseUnavailable(
            {address.display: "others are moving to another node" for address in self._addresses}
        )

    async def accept_primary(self, *, epoch: int) -> AcceptedPrimary:
        """Raise the epoch of the only writable node to `epoch`, so that all processes use it.

        Raise ConfigurationError if several nodes accept writes, because the choice is not clear.
        """
        look = _ProbeResult()
        try:
            await self._probe_addresses(Purpose.WRITE, None, look)
            if not look.nodes:
                raise look.to_error()
            if len(look.nodes) > 1:
                raise ConfigurationError(
                    f"several addresses accept writes ({', '.join(look.nodes)}); stop the nodes"
                    " that are not to be the primary, and run this again"
                )
            (node,) = look.nodes.values()
            found, place = node.stream, node.address.display
            if found is None:
                raise SchemaMismatch(f"{place} has no headway schema", remedy="headway db upgrade")
            epoch = max(epoch, found.epoch + 1)
            if not await self._raise_epoch(node, found, epoch=epoch):
                raise DatabaseUnavailable({place: "another process raised its epoch; try again"})
            return AcceptedPrimary(place, epoch, found.seq)
        finally:
            for node in look.nodes.values():
                self._server.discard(node.connection)

    @property
    def cluster_id(self) -> str | None:
        """Of the cluster in which this process works, once it has connected."""
        newest = self._tracker.newest
        return None if newest is None else newest.stream.cluster_id

    def note_commit(self, seq: int, *, epoch: int, connection: RawConnection) -> None:
        """Remember that `seq` was committed on this connection, in this epoch."""
        self._tracker.note_commit(seq, epoch=epoch, address=self._connection_addresses[connection])

    def is_current(self, connection: RawConnection) -> bool:
        """False when the process has since moved to another node: use this one no more."""
        newest = self._tracker.newest
        return newest is None or newest.primary == self._connection_addresses[connection]

    def note_disconnect(self) -> None:
        """Say that a connection broke: the next one looks at all addresses."""
        with self._lock:
            self._probe_all_at_s = self._clock_s()

    async def _try_connect(self, purpose: Purpose) -> RawConnection | None:
        """Connect to the best node; None when somebody moved on before this was done."""
        # Remembered before any node is read: see `refusal`.
        newest = self._tracker.newest
        look = _ProbeResult()
        try:
            await self._probe_addresses(purpose, newest, look)
            choice = _choose(look, newest)
            if choice is None:
                self.note_disconnect()
                raise look.to_error()
            node = look.nodes[choice.address]
            if not await self._adopt_node(node, choice, newest):
                return None
            del look.nodes[choice.address]
            return node.connection
        finally:
            for node in look.nodes.values():
                self._server.discard(node.connection)

    async def _probe_addresses(
        self, purpose: Purpose, newest: NewestState | None, look: _ProbeResult
    ) -> None:
        from_s = self._probe_all_at_s
        may_stop_at_home = newest is not None and self._clock_s() < from_s
        for address in self._addresses:
            await self._probe(address, purpose, newest, look)
            if may_stop_at_home and newest is not None and newest.primary == address.display:
                choice = _choose(look, newest)
                if choice is not None and choice.address == newest.primary:
                    return
        with self._lock:
            if self._probe_all_at_s == from_s:  # Else a connection was lost in the meantime.
                again_s = (
                    self._clock_s() + PROBE_ALL_INTERVAL_S
                    if look.unreachable_count
                    else float("inf")
                )
                self._probe_all_at_s = again_s

    async def _probe(
        self, address: Address, purpose: Purpose, newest: NewestState | None, look: _ProbeResult
    ) -> None:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                connection = await self._server.open(address, purpose)
                try:
                    problem = await self._server.read_only_reason(connection)
                    found = None if problem else await self._server.read_stream(connection)
                except BaseException:
                    self._server.discard(connection)
                    raise
        except self._server.errors as error:
            look.unreachable_count += 1
            look.reasons[address.display] = _describe_error(error, address)
            return
        problem = problem or refusal_reason(found, address=address.display, newest=newest)
        if problem is None:
            look.nodes[address.display] = _Node(address, connection, found)
        else:
            self._server.discard(connection)
            look.reasons[address.display] = problem

    async def _adopt_node(
        self, node: _Node, choice: NodeChoice, newest: NewestState | None
    ) -> bool:
        found = node.stream
        if found is not None:
            if choice.raises_epoch:
                if not await self._raise_epoch(node, found, epoch=found.epoch + 1):
                    return False
                found = replace(found, epoch=found.epoch + 1)
            if not self._tracker.adopt(found, primary=choice.address, expected=newest):
                return False
        with self._lock:
            self._connection_addresses[node.connection] = choice.address
        return True

    async def _raise_epoch(self, node: _Node, found: StreamState, *, epoch: int) -> bool:
        address = node.address
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                raised = await self._server.raise_epoch(
                    node.connection, seen_epoch=found.epoch, epoch=epoch
                )
        except self._server.errors as error:
            raise DatabaseUnavailable({address.display: _describe_error(error, address)}) from error
        if raised:
            log.warning("database_moved", extra={"address": address.display, "epoch": epoch})
        return raised


def _choose(look: _ProbeResult, newest: NewestState | None) -> NodeChoice | None:
    if not look.nodes:
        return None
    choice = choose_node({address: node.stream for address, node in look.nodes.items()}, newest)
    if choice is None:
        disagreement = "belongs to another cluster than its neighbours; list nodes of one cluster"
        look.reasons |= dict.fromkeys(look.nodes, disagreement)
    return choice


def _describe_error(error: Exception, address: Address) -> str:
    if isinstance(error, TimeoutError) and not error.args:
        return f"gave no answer within {PROBE_TIMEOUT_S:g} s"
    text = " ".join(str(part) for part in error.args) or type(error).__name__
    if isinstance(error.__cause__, OSError):  # aiomysql keeps what really happened there.
        text = f"{text}: {error.__cause__}"
    # The drivers do not repeat the password today. Nothing says that they never will.
    return text.replace(address.password, "***") if address.password else text


def _create_server(address: Address) -> Server:
    # Their drivers are optional extras: only what is used is imported.
    match address.driver:
        case "postgres":
            from headway.adapters.sql.connect.postgres import PostgresDriver  # noqa: PLC0415

            return PostgresDriver()
        case "mysql":
            from headway.adapters.sql.connect.mysql import MysqlDriver  # noqa: PLC0415

            return MysqlDriver()
        case "sqlite":
            raise AssertionError("SQLite has no server")
