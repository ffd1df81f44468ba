"""Connect to the node with the newest state, given one or several addresses.

Every connection to a server is opened here, by the readers, the writer and the listener. The rules
by which a node is chosen are in `lineage.py`. See docs/internals/connections.md.
"""

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
    """A writable node, with the connection on which it was probed."""

    address: Address
    connection: RawConnection
    stream: StreamState | None


@dataclass(slots=True)
class _ProbeResult:
    """The result of probing the addresses: usable nodes, and why the others cannot be used."""

    nodes: dict[str, _Node] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    unreachable_count: int = 0

    def to_error(self) -> DatabaseUnavailable:
        is_behind = any(reason in BEHIND_REASONS for reason in self.reasons.values())
        return DatabaseBehind(self.reasons) if is_behind else DatabaseUnavailable(self.reasons)


@dataclass(frozen=True, slots=True)
class AcceptedPrimary:
    """The primary that an administrator accepted. All processes use it from now on."""

    address: str
    epoch: int
    seq: int


class Connector:
    """Connects to the first writable address that has the newest state.

    It can be used from several threads and event loops at once. Each call first reads the newest
    state that this process has seen, then probes the nodes, and chooses one by that state. The call
    stores its choice only if no other call has stored another choice in the meantime. Otherwise it
    probes again.

    Probing stops at the current primary if it is usable. All addresses are probed when there may
    be a newer primary: at the first call, when the current primary does not answer, after a
    connection was lost, and every 30 s while an address does not answer.
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
        """Return a new connection, which the caller must close.

        Raise DatabaseUnavailable, with a reason per address, if no node can be used.
        """
        for _ in range(CONNECT_ATTEMPT_COUNT_MAX):
            connection = await self._try_connect(purpose)
            if connection is not None:
                return connection
        raise DatabaseUnavailable(
            {
                address.display: "other processes are changing the primary"
                for address in self._addresses
            }
        )

    async def accept_primary(self, *, epoch: int) -> AcceptedPrimary:
        """Increase the epoch of the only writable node, so that all processes use that node.

        The new epoch is `epoch`, or the node's epoch plus 1 if that is higher. Raise
        ConfigurationError if several nodes accept writes, because headway cannot choose one.
        """
        result = _ProbeResult()
        try:
            await self._probe_addresses(Purpose.WRITE, None, result)
            if not result.nodes:
                raise result.to_error()
            if len(result.nodes) > 1:
                raise ConfigurationError(
                    f"several addresses accept writes ({', '.join(result.nodes)}); stop the nodes"
                    " that are not to be the primary, and run the command again"
                )
            (node,) = result.nodes.values()
            stream, display = node.stream, node.address.display
            if stream is None:
                raise SchemaMismatch(
                    f"{display} has no headway schema", remedy="headway db upgrade"
                )
            epoch = max(epoch, stream.epoch + 1)
            if not await self._raise_epoch(node, stream, epoch=epoch):
                raise DatabaseUnavailable(
                    {display: "another process changed the epoch of this node; try again"}
                )
            return AcceptedPrimary(display, epoch, stream.seq)
        finally:
            for node in result.nodes.values():
                self._server.discard(node.connection)

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster that this process uses, or None before the first connection."""
        newest = self._tracker.newest
        return None if newest is None else newest.stream.cluster_id

    def note_commit(self, seq: int, *, epoch: int, connection: RawConnection) -> None:
        """Record that `seq` was committed on this connection, in this epoch."""
        self._tracker.note_commit(seq, epoch=epoch, address=self._connection_addresses[connection])

    def is_current(self, connection: RawConnection) -> bool:
        """Return False if the connection must be closed because this process uses another node."""
        newest = self._tracker.newest
        return newest is None or newest.primary == self._connection_addresses[connection]

    def note_disconnect(self) -> None:
        """Record that a connection was lost, so that the next call probes all addresses."""
        with self._lock:
            self._probe_all_at_s = self._clock_s()

    async def _try_connect(self, purpose: Purpose) -> RawConnection | None:
        """Connect to the best node. Return None if another call changed the primary meanwhile."""
        # Read before any node is probed: see `refusal_reason`.
        newest = self._tracker.newest
        result = _ProbeResult()
        try:
            await self._probe_addresses(purpose, newest, result)
            choice = _choose(result, newest)
            if choice is None:
                self.note_disconnect()
                raise result.to_error()
            node = result.nodes[choice.address]
            if not await self._adopt_node(node, choice, newest):
                return None
            del result.nodes[choice.address]
            return node.connection
        finally:
            for node in result.nodes.values():
                self._server.discard(node.connection)

    async def _probe_addresses(
        self, purpose: Purpose, newest: NewestState | None, result: _ProbeResult
    ) -> None:
        probe_all_at_s = self._probe_all_at_s
        may_stop_at_primary = newest is not None and self._clock_s() < probe_all_at_s
        for address in self._addresses:
            await self._probe(address, purpose, newest, result)
            if may_stop_at_primary and newest is not None and newest.primary == address.display:
                choice = _choose(result, newest)
                if choice is not None and choice.address == newest.primary:
                    return
        with self._lock:
            # A different value means that a connection was lost in the meantime.
            if self._probe_all_at_s == probe_all_at_s:
                self._probe_all_at_s = (
                    self._clock_s() + PROBE_ALL_INTERVAL_S
                    if result.unreachable_count
                    else float("inf")
                )

    async def _probe(
        self, address: Address, purpose: Purpose, newest: NewestState | None, result: _ProbeResult
    ) -> None:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                connection = await self._server.open(address, purpose)
                try:
                    problem = await self._server.read_only_reason(connection)
                    stream = None if problem else await self._server.read_stream(connection)
                except BaseException:
                    self._server.discard(connection)
                    raise
        except self._server.errors as error:
            result.unreachable_count += 1
            result.reasons[address.display] = _describe_error(error, address)
            return
        problem = problem or refusal_reason(stream, address=address.display, newest=newest)
        if problem is None:
            result.nodes[address.display] = _Node(address, connection, stream)
        else:
            self._server.discard(connection)
            result.reasons[address.display] = problem

    async def _adopt_node(
        self, node: _Node, choice: NodeChoice, newest: NewestState | None
    ) -> bool:
        """Make the node the primary. Return False if another call or process was faster."""
        stream = node.stream
        if stream is not None:
            if choice.raises_epoch:
                if not await self._raise_epoch(node, stream, epoch=stream.epoch + 1):
                    return False
                stream = replace(stream, epoch=stream.epoch + 1)
            if not self._tracker.adopt(stream, primary=choice.address, expected=newest):
                return False
        with self._lock:
            self._connection_addresses[node.connection] = choice.address
        return True

    async def _raise_epoch(self, node: _Node, stream: StreamState, *, epoch: int) -> bool:
        address = node.address
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                raised = await self._server.raise_epoch(
                    node.connection, seen_epoch=stream.epoch, epoch=epoch
                )
        except self._server.errors as error:
            raise DatabaseUnavailable({address.display: _describe_error(error, address)}) from error
        if raised:
            log.warning("epoch_raised", extra={"address": address.display, "epoch": epoch})
        return raised


def _choose(result: _ProbeResult, newest: NewestState | None) -> NodeChoice | None:
    if not result.nodes:
        return None
    choice = choose_node({address: node.stream for address, node in result.nodes.items()}, newest)
    if choice is None:
        disagreement = "belongs to another cluster than the others; list the nodes of one cluster"
        result.reasons |= dict.fromkeys(result.nodes, disagreement)
    return choice


def _describe_error(error: Exception, address: Address) -> str:
    if isinstance(error, TimeoutError) and not error.args:
        return f"did not answer within {PROBE_TIMEOUT_S:g} s"
    text = " ".join(str(part) for part in error.args) or type(error).__name__
    if isinstance(error.__cause__, OSError):  # aiomysql has the original error there.
        text = f"{text}: {error.__cause__}"
    # The drivers do not include the password today, but they do not guarantee that.
    return text.replace(address.password, "***") if address.password else text


def _create_server(address: Address) -> Server:
    # The drivers are optional extras, so only the one in use is imported.
    match address.driver:
        case "postgres":
            from headway.adapters.sql.connect.postgres import PostgresDriver  # noqa: PLC0415

            return PostgresDriver()
        case "mysql":
            from headway.adapters.sql.connect.mysql import MysqlDriver  # noqa: PLC0415

            return MysqlDriver()
        case "sqlite":
            raise AssertionError("SQLite has no server")
