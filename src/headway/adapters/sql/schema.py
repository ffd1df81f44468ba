"""The schema's version: verified at start, moved forward by `headway db upgrade`, never backwards.

SQLite is brought up to date at start, through the same chain, after a copy of the file.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql import migrations
from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import Address
from headway.adapters.sql.connect.sqlite import (
    APPLICATION_ID,
    create_private_file,
    explain_error,
    has_headway_tables,
)
from headway.adapters.sql.ownership import find_foreign, read_columns, read_revision
from headway.adapters.sql.write.links.link_source import LOCK_SUFFIX
from headway.adapters.sql.write.links.sqlite_link import FileLock
from headway.core.errors import (
    ConfigurationError,
    ForeignDatabase,
    InfrastructureError,
    SchemaMismatch,
)

UPGRADE_COMMAND: Final = "headway db upgrade"
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
    found = None
    path = address.file
    with translate_errors(address):
        # A file that is not there yet is not made by looking for it.
        if path is None or await asyncio.to_thread(has_headway_tables, path):
            async with database.open_session() as session:
                found = await session.run_sync(_find_revision, address)
    newest = _known_revisions()[-1]
    if found is None:
        raise SchemaMismatch(
            f"the database {address.display} has no headway schema", remedy=UPGRADE_COMMAND
        )
    if found != newest:
        raise SchemaMismatch(
            f"the schema of {address.display} is at {found}, this program needs {newest}",
            remedy=UPGRADE_COMMAND,
        )
    return newest


async def upgrade_schema(database: Database, address: Address) -> str:
    """Run the migrations that are missing, once, under a lock; the version that is there then."""
    path = address.file
    newest = _known_revisions()[-1]
    with translate_errors(address):
        if path is not None:
            await asyncio.to_thread(
                has_headway_tables, path
            )  # Another's is refused before it is touched.
        async with _open_locked(database, address) as connection:
            found = await connection.run_sync(_find_revision, address)
            if found != newest:
                if found is not None and path is not None:
                    await asyncio.to_thread(_copy_file, path, found)
                await connection.run_sync(_run_migrations)
                if database.driver == "sqlite":
                    await connection.execute(sa.text(f"PRAGMA application_id = {APPLICATION_ID}"))
            await connection.commit()
    return newest


@contextmanager
def translate_errors(address: Address) -> Iterator[None]:
    """One sentence for a file that SQLite cannot use, a full disk, a role without rights."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise ConfigurationError(explain_error(error.orig, address.database)) from error
        raise ConfigurationError(
            f"the schema of {address.display} cannot be read or made: {_driver_message(error)}"
        ) from error
    except sqlite3.Error as error:
        raise ConfigurationError(explain_error(error, address.database)) from error


def _driver_message(error: sa.exc.DBAPIError) -> str:
    """The server's own words: the last argument of the driver's own error, on every driver."""
    assert error.orig is not None
    driver_error = error.orig.__cause__ or error.orig
    words = driver_error.args[-1] if driver_error.args else type(driver_error).__name__
    return str(words)


@asynccontextmanager
async def _open_locked(database: Database, address: Address) -> AsyncIterator[AsyncConnection]:
    """A connection that may write, while nobody else upgrades the same database."""
    path = address.file
    gate = None if path is None else await asyncio.to_thread(_acquire_file_lock, path)
    try:
        async with database.open_write_session() as connection:
            if database.driver == "postgres":
                await connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'"))
                lock = sa.text("SELECT pg_advisory_xact_lock(:number)")
                await connection.execute(lock, {"number": LOCK_NUMBER})
                yield connection
            elif database.driver == "mysql":
                lock = sa.text("SELECT GET_LOCK(:name, :seconds)")
                name = {"name": LOCK_NAME}
                if await connection.scalar(lock, name | {"seconds": LOCK_WAIT_S}) != 1:
                    raise InfrastructureError(
                        f"another program is upgrading {address.display}; try again when it is done"
                    )
                try:
                    yield connection
                finally:
                    await connection.execute(sa.text("SELECT RELEASE_LOCK(:name)"), name)
            else:
                yield connection
    finally:
        if gate is not None:
            gate.release()
            gate.close()


def _acquire_file_lock(path: Path) -> FileLock:
    create_private_file(path)
    gate_path = Path(f"{path}{LOCK_SUFFIX}")
    try:
        gate = FileLock(gate_path)
    except OSError as error:
        raise ConfigurationError(
            f"the file {str(gate_path)!r} cannot be made ({error.strerror}); "
            "let headway write to the folder of its database"
        ) from error
    gate.acquire()
    return gate


def _version_folders() -> list[Path]:
    return [Path(folder) / "versions" for folder in migrations.__path__]


def _known_revisions() -> list[str]:
    """Those that this program knows, oldest first: `m0001_runs.py` leads to revision 0001."""
    files = (file for folder in _version_folders() for file in folder.glob("m*.py"))
    return sorted(file.name[1:5] for file in files)


def _find_revision(connection: sa.Connection, address: Address) -> str | None:
    """Return the schema's revision, or None if there is no schema yet.

    Raise ForeignDatabase if the tables are another program's, SchemaMismatch if they are a newer
    headway's.
    """
    columns = read_columns(connection)
    found = read_revision(connection, columns)
    known = _known_revisions()
    evidence = find_foreign(columns, found, known=known)
    if evidence is not None:
        raise ForeignDatabase(address.display, evidence)
    if found is not None and found not in known:
        raise SchemaMismatch(
            f"the schema of {address.display} is at {found}, which is newer than this program"
        )
    return found


def _copy_file(path: Path, revision: str) -> None:
    """A copy of the state before the migration, beside the file."""
    copy = path.with_name(f"{path.name}.before-{revision}")
    create_private_file(copy)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def _run_migrations(connection: sa.Connection) -> None:
    # Only who migrates needs these, and they take a quarter of the time that a start takes.
    from alembic.config import Config  # noqa: PLC0415
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "headway.adapters.sql:migrations")
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", os.pathsep.join(map(str, _version_folders())))
    scripts = ScriptDirectory.from_config(config)
    context = EnvironmentContext(
        config, scripts, fn=lambda revision, _: scripts._upgrade_revs("head", revision)
    )
    context.configure(connection=connection, transactional_ddl=connection.dialect.name != "mysql")
    context.run_migrations()
