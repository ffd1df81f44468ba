"""The schema's version: verified at start, moved forward by `headway db upgrade`, never backwards.

SQLite is brought up to date at start, through the same chain, after a copy of the file.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.database import Database
from headway.adapters.sql.dsn import Address
from headway.adapters.sql.links.source import GATE_SUFFIX
from headway.adapters.sql.links.sqlite import FileGate
from headway.adapters.sql.sqlite import create_private
from headway.core.errors import ConfigurationError, SchemaMismatch

APPLICATION_ID: Final = 0x68647779
"""Written into the head of our SQLite files, so that we never touch another program's."""
LOCK_NAME: Final = "headway_migration"
LOCK_NUMBER: Final = 0x6864_7779
LOCK_WAIT_S: Final = 60


async def prepare_schema(database: Database, address: Address) -> None:
    """At start: SQLite is created or upgraded; of any other database the version is verified."""
    if database.driver == "sqlite":
        await upgrade_schema(database, address)
    else:
        await check_schema(database, address)


async def check_schema(database: Database, address: Address) -> str:
    """The version that is there, if it is the program's own; else SchemaMismatch."""
    async with database.session() as session:
        found = await session.run_sync(_found_revision)
    newest = _scripts().get_current_head()
    assert newest is not None
    _refuse_unknown(found, address)
    if found is None:
        raise SchemaMismatch(
            f"the database {address.display} has no headway schema; run: headway db upgrade"
        )
    if found != newest:
        raise SchemaMismatch(
            f"the schema of {address.display} is at {found}, this program needs {newest}; "
            "run: headway db upgrade"
        )
    return newest


async def upgrade_schema(database: Database, address: Address) -> str:
    """Run the migrations that are missing, once, under a lock; the version that is there then."""
    try:
        async with _locked(database, address) as connection:
            if database.driver == "sqlite":
                await connection.run_sync(_refuse_foreign_file, address)
            found = await connection.run_sync(_found_revision)
            _refuse_unknown(found, address)
            newest = _scripts().get_current_head()
            assert newest is not None
            if found != newest:
                if found is not None and database.driver == "sqlite" and not address.is_memory:
                    _copy_file(Path(address.database), found)
                await connection.run_sync(_run_migrations)
                if database.driver == "sqlite":
                    await connection.execute(sa.text(f"PRAGMA application_id = {APPLICATION_ID}"))
            await connection.commit()
            return newest
    except sa.exc.DatabaseError as error:
        raise _explained(error, address) from error
    except sqlite3.DatabaseError as error:
        raise _explained(error, address) from error


def _explained(error: Exception, address: Address) -> ConfigurationError:
    """One sentence for a file that SQLite cannot use, a full disk, a role without rights."""
    reason = str(getattr(error, "orig", error)).splitlines()[0]
    if "not a database" in reason or "malformed" in reason:
        return ConfigurationError(
            f"the file {address.display} is not a SQLite database, or is damaged; "
            "name another file, or restore it from a copy"
        )
    return ConfigurationError(f"the schema of {address.display} cannot be made: {reason}")


@asynccontextmanager
async def _locked(database: Database, address: Address) -> AsyncIterator[AsyncConnection]:
    gate: FileGate | None = None
    if database.driver == "sqlite" and not address.is_memory:
        gate = await asyncio.to_thread(_open_gate, address)
    try:
        async with database.writing() as connection:
            if database.driver == "postgres":
                lock = sa.text("SELECT pg_advisory_xact_lock(:number)")
                await connection.execute(lock, {"number": LOCK_NUMBER})
                yield connection
            elif database.driver == "mysql":
                lock = sa.text("SELECT GET_LOCK(:name, :seconds)")
                await connection.execute(lock, {"name": LOCK_NAME, "seconds": LOCK_WAIT_S})
                try:
                    yield connection
                finally:
                    await connection.execute(
                        sa.text("SELECT RELEASE_LOCK(:name)"), {"name": LOCK_NAME}
                    )
            else:
                yield connection
    finally:
        if gate is not None:
            gate.release()
            gate.close()


def _open_gate(address: Address) -> FileGate:
    create_private(Path(address.database))
    gate = FileGate(Path(address.database + GATE_SUFFIX))
    gate.acquire()
    return gate


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", "headway.adapters.sql:migrations")
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)


def _found_revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _refuse_unknown(found: str | None, address: Address) -> None:
    known = {script.revision for script in _scripts().walk_revisions()}
    if found is not None and found not in known:
        raise SchemaMismatch(
            f"the schema of {address.display} is at {found}, which is newer than this program; "
            "upgrade headway"
        )


def _refuse_foreign_file(connection: sa.Connection, address: Address) -> None:
    has_tables = connection.scalar(sa.text("SELECT COUNT(*) FROM sqlite_master"))
    owner = connection.scalar(sa.text("PRAGMA application_id"))
    if has_tables and owner != APPLICATION_ID:
        raise ConfigurationError(
            f"the file {address.display} belongs to another program; name another file"
        )


def _copy_file(path: Path, revision: str) -> None:
    """A copy of the state before the migration, beside the file."""
    copy = path.with_name(f"{path.name}.before-{revision}")
    source = sqlite3.connect(path)
    try:
        target = sqlite3.connect(copy)
        try:
            source.backup(target)
        finally:
            target.close()
    finally:
        source.close()
    copy.chmod(0o600)


def _run_migrations(connection: sa.Connection) -> None:
    scripts = _scripts()
    context = EnvironmentContext(
        Config(), scripts, fn=lambda revision, _: scripts._upgrade_revs("head", revision)
    )
    context.configure(connection=connection, transactional_ddl=connection.dialect.name != "mysql")
    context.run_migrations()
