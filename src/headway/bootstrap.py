"""The composition root: the only module that builds adapters and passes them to services."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pydantic import SecretStr

from headway.adapters.files.folder import DataFolder
from headway.adapters.files.mirror_directory import MirrorFolder
from headway.adapters.sql.connect.addresses import AcceptedPrimary, Connector
from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.connect.sqlite import Durability, warn_if_sqlite_is_old
from headway.adapters.sql.read.read_doctor import SqlDoctorReader
from headway.adapters.sql.read.read_runs import SqlRunReader
from headway.adapters.sql.schema import check_schema, translate_errors, upgrade_schema
from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.adapters.system.file_life_lock import FileLifeLock, runtime_folder
from headway.adapters.system.random_ids import SystemIds
from headway.adapters.system.signals import call_on_hangup, wait_for_stop_signal
from headway.adapters.system.system_clock import SystemClock
from headway.core.errors import ConfigurationError
from headway.ports.clock import Clock
from headway.ports.workers import WorkerClient
from headway.runtime import RuntimeLimits, open_runtime_store
from headway.services.engine.hint_relay import HintRelay
from headway.services.flow.definition_cache import DefinitionCache
from headway.services.flow.driver import FlowServices
from headway.services.flow.flow_clock import FlowClock
from headway.services.flow.functions import Functions
from headway.services.flow.workers import Workers
from headway.services.submit.submitter import Submitter

__all__ = [
    "AcceptedPrimary",
    "DataFolder",
    "Durability",
    "MirrorFolder",
    "Readers",
    "SqlStore",
    "SystemClock",
    "SystemIds",
    "accept_primary",
    "build_flow_services",
    "build_life_lock",
    "call_on_hangup",
    "check_database",
    "data_folder",
    "display_urls",
    "open_hint_relay",
    "open_readers",
    "open_store",
    "upgrade_database",
    "wait_for_stop_signal",
]


def build_life_lock(urls: Sequence[str], store: SqlStore) -> FileLifeLock:
    """Return the life lock of this process, in the folder where other processes check it.

    For SQLite, this is the folder of the database file, because every process that uses the file
    can reach it. For other databases, it is this user's runtime folder on this host.
    """
    address = parse_addresses(urls)[0]
    if address.is_memory:
        return FileLifeLock(None, prefix="")
    if address.file is not None:
        life_lock = FileLifeLock(address.file.parent, prefix=address.file.name)
        if life_lock.has_other_processes():
            warn_if_sqlite_is_old(address.file)
        return life_lock
    cluster_id = (store.cluster_id or "").encode()
    return FileLifeLock(runtime_folder(), prefix=sha256(cluster_id).hexdigest()[:16])


def data_folder(urls: Sequence[str], data: str | None) -> DataFolder:
    """Return the folder for the files of runs: `data`, or the default if `data` is None.

    The default is the folder named `data` next to the SQLite file, or in the current folder if the
    database is not SQLite.
    """
    if data is not None:
        return DataFolder(Path(data))
    file = parse_addresses(urls)[0].file
    return DataFolder((Path() if file is None else file.parent) / "data")


def worker_client_factory(
    networks: Sequence[str], token: SecretStr | None
) -> Callable[[], WorkerClient]:
    """Return a factory of clients for workers in `networks` and on this host."""

    def make_client() -> WorkerClient:
        # Imported here because it is slow to import and many programs have no workers.
        from headway.adapters.http.aiohttp_worker_client import HttpWorkerClient  # noqa: PLC0415

        secret = None if token is None else token.get_secret_value()
        return HttpWorkerClient(networks, token=secret)

    return make_client


def build_flow_services(
    store: SqlStore,
    clock: Clock,
    functions: Functions,
    make_client: Callable[[], WorkerClient],
    submitter: Submitter,
) -> FlowServices:
    """Return the services that drivers of flow tasks use."""
    flow_clock = FlowClock(clock)
    return FlowServices(
        store=store,
        run_reader=store.runs,
        flow_reader=store.flows,
        clock=flow_clock,
        definitions=DefinitionCache(store.flows),
        submitter=submitter,
        functions=functions,
        workers=Workers(store, store.workers, flow_clock, make_client=make_client),
    )


def display_urls(urls: Sequence[str]) -> str:
    """Return the addresses for display. Passwords are removed, and file paths are absolute."""
    return ", ".join(
        address.display if address.file is None else f"sqlite:///{address.file.absolute()}"
        for address in parse_addresses(urls)
    )


def missing_sqlite_file(urls: Sequence[str]) -> Path | None:
    """Return the absolute path of the SQLite file if it does not exist, else None."""
    file = parse_addresses(urls)[0].file
    return None if file is None or file.exists() else file.absolute()


async def upgrade_database(urls: Sequence[str]) -> str:
    """Upgrade the schema to the version of this program, and return the resulting version."""
    addresses = parse_addresses(urls)
    database = Database(addresses, durability="process")
    try:
        return await upgrade_schema(database, addresses[0])
    finally:
        await database.close()


async def check_database(urls: Sequence[str]) -> str:
    """Return the schema version. Raise SchemaMismatch if this program needs another one."""
    addresses = parse_addresses(urls)
    database = Database(addresses, durability="process")
    try:
        return await check_schema(database, addresses[0])
    finally:
        await database.close()


async def accept_primary(urls: Sequence[str]) -> AcceptedPrimary:
    """Make every process use the node that accepts writes now, even if that node lacks commits.

    Raise ConfigurationError on SQLite, which has no failover.
    """
    addresses = parse_addresses(urls)
    if addresses[0].driver == "sqlite":
        raise ConfigurationError(
            "SQLite is one file and has no failover; there is nothing to accept"
        )
    # The time in seconds is higher than any epoch that was accepted or counted up earlier.
    return await Connector(addresses).accept_primary(epoch=int(time.time()))


@dataclass(frozen=True, slots=True)
class Readers:
    runs: SqlRunReader
    doctor: SqlDoctorReader


@asynccontextmanager
async def open_readers(urls: Sequence[str]) -> AsyncIterator[Readers]:
    """Open a database for reading only. No writer is started, so nothing can be changed."""
    addresses = parse_addresses(urls)
    database = Database(addresses, durability="process")
    try:
        await check_schema(database, addresses[0])
        with translate_errors(addresses[0]):
            yield Readers(SqlRunReader(database), SqlDoctorReader(database))
    finally:
        await database.close()


@asynccontextmanager
async def open_hint_relay(
    redis_url: str | None, store: SqlStore, *, lease_ttl_s: float
) -> AsyncIterator[HintRelay | None]:
    """Open the relay of hints between instances. Yield None if `redis_url` is None.

    A process needs no relay for its own changes.
    """
    if redis_url is None:
        yield None
        return
    limits = RuntimeLimits(lease_ttl_s=lease_ttl_s)
    async with open_runtime_store(redis_url, limits) as hint_bus:
        hint_relay = HintRelay(hint_bus, store, store.runs, lease_ttl_s=lease_ttl_s)
        async with hint_relay.run():
            yield hint_relay
