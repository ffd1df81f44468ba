"""The only file that builds adapters and hands them to services."""

from collections.abc import Sequence

from headway.adapters.sql.database import Database
from headway.adapters.sql.dsn import parse_addresses
from headway.adapters.sql.schema import check_schema, upgrade_schema
from headway.adapters.sql.sqlite import Durability
from headway.adapters.sql.store import SqlStore, open_store
from headway.adapters.system.clock import SystemClock
from headway.adapters.system.ids import SystemIds

__all__ = [
    "Durability",
    "SqlStore",
    "SystemClock",
    "SystemIds",
    "check_database",
    "open_store",
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
