"""The only file that builds adapters and hands them to services."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from headway.adapters.sql.database import Database
from headway.adapters.sql.dsn import parse_addresses
from headway.adapters.sql.read_doctor import SqlDoctorReader
from headway.adapters.sql.read_runs import SqlRunReader
from headway.adapters.sql.schema import check_schema, faults_explained, upgrade_schema
from headway.adapters.sql.sqlite import Durability
from headway.adapters.sql.store import SqlStore, open_store
from headway.adapters.system.clock import SystemClock
from headway.adapters.system.ids import SystemIds
from headway.adapters.system.signals import wait_for_signal

__all__ = [
    "Durability",
    "Readers",
    "SqlStore",
    "SystemClock",
    "SystemIds",
    "check_database",
    "display",
    "open_store",
    "opened_readers",
    "upgrade_database",
    "wait_for_signal",
]


def display(urls: Sequence[str]) -> str:
    """Which database that is, for people: without passwords, and a file with its whole path."""
    return ", ".join(
        f"sqlite:///{Path(address.database).absolute()}"
        if address.driver == "sqlite" and not address.is_memory
        else address.display
        for address in parse_addresses(urls)
    )


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
