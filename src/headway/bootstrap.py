"""The only file that builds adapters and hands them to services."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headway.adapters.memory.runtime_store import MemoryRuntimeStore
from headway.adapters.sql.database import Database
from headway.adapters.sql.dsn import parse_addresses
from headway.adapters.sql.read_doctor import SqlDoctorReader
from headway.adapters.sql.read_runs import SqlRunReader
from headway.adapters.sql.schema import check_schema, faults_explained, upgrade_schema
from headway.adapters.sql.sqlite import Durability
from headway.adapters.sql.store import SqlStore, open_store
from headway.adapters.system.clock import SystemClock
from headway.adapters.system.ids import SystemIds
from headway.ports.runtime_store import RuntimeStore, RuntimeTerms

__all__ = [
    "Durability",
    "Readers",
    "SqlStore",
    "SystemClock",
    "SystemIds",
    "check_database",
    "open_store",
    "opened_readers",
    "opened_runtime_store",
    "upgrade_database",
]


async def upgrade_database(urls: Sequence[str]) -> str:
    """Bring the schema to this program's version; the version that is there then."""
    addresses = parse_addresses(urls)
    database = Database(addresses, durability="process")
    try:
        return await upgrade_schema(database, addresses[0])
    finally:
        await database.close()


async def check_database(urls: Sequence[str]) -> str:
    """The schema's version, if the program can work with it; changes nothing."""
    addresses = parse_addresses(urls)
    database = Database(addresses, durability="process")
    try:
        return await check_schema(database, addresses[0])
    finally:
        await database.close()


@dataclass(frozen=True, slots=True)
class Readers:
    runs: SqlRunReader
    doctor: SqlDoctorReader


@asynccontextmanager
async def opened_readers(urls: Sequence[str]) -> AsyncIterator[Readers]:
    """Look at a database without a writer: whatever is done with it, nothing is changed."""
    addresses = parse_addresses(urls)
    database = Database(addresses, durability="process")
    try:
        await check_schema(database, addresses[0])
        with faults_explained(addresses[0]):
            yield Readers(SqlRunReader(database), SqlDoctorReader(database))
    finally:
        await database.close()


@asynccontextmanager
async def opened_runtime_store(
    redis_url: str | None, terms: RuntimeTerms | None = None
) -> AsyncIterator[RuntimeStore]:
    """The one in Redis, or without an address the one of this process.

    Connects when it is used: a server that is away at the start is no reason not to start.
    """
    if redis_url is None:
        yield MemoryRuntimeStore(terms)
        return
    # Only here: it is slow to import, and an extra that may not be installed.
    from headway.adapters.redis.address import parse_redis_url  # noqa: PLC0415

    address = parse_redis_url(redis_url, place="HEADWAY_REDIS_URL")
    from headway.adapters.redis.runtime_store import RedisRuntimeStore  # noqa: PLC0415

    store = RedisRuntimeStore(address, terms)
    try:
        yield store
    finally:
        await store.close()
