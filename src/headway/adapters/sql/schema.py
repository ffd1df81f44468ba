"""Check the revision of the schema at start, and upgrade it.

The schema of a server is upgraded by `headway db upgrade`. The schema of a SQLite file is upgraded
at start, by the same migrations, after a copy of the file was made. There are no downgrades.
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
    """Create or upgrade the schema on SQLite. On a server, only check its revision."""
    if database.driver == "sqlite":
        await upgrade_schema(database, address)
    else:
        await check_schema(database, address)


async def check_schema(database: Database, address: Address) -> str:
    """Return the revision of the schema. Raise SchemaMismatch if it is not the newest one."""
    revision = None
    path = address.file
    with translate_errors(address):
        # The check must not create a missing file.
        if path is None or await asyncio.to_thread(has_headway_tables, path):
            async with database.open_session() as session:
                revision = await session.run_sync(_find_revision, address)
    newest = _known_revisions()[-1]
    if revision is None:
        raise SchemaMismatch(
            f"the database {address.display} has no headway schema", remedy=UPGRADE_COMMAND
        )
    if revision != newest:
        raise SchemaMismatch(
            f"the schema of {address.display} is at {revision}, this program needs {newest}",
            remedy=UPGRADE_COMMAND,
        )
    return newest


async def upgrade_schema(database: Database, address: Address) -> str:
    """Run the missing migrations under a lock, and return the resulting revision."""
    path = address.file
    newest = _known_revisions()[-1]
    with translate_errors(address):
        if path is not None:
            # Refuse another program's file before anything is changed.
            await asyncio.to_thread(has_headway_tables, path)
        async with _open_locked(database, address) as connection:
            revision = await connection.run_sync(_find_revision, address)
            if revision != newest:
                if revision is not None and path is not None:
                    await asyncio.to_thread(_copy_file, path, revision)
                await connection.run_sync(_run_migrations)
                if database.driver == "sqlite":
                    await connection.execute(sa.text(f"PRAGMA application_id = {APPLICATION_ID}"))
            await connection.commit()
    return newest


@contextmanager
def translate_errors(address: Address) -> Iterator[None]:
    """Translate driver errors, such as a full disk or missing rights, to ConfigurationError."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise ConfigurationError(explain_error(error.orig, address.database)) from error
        raise ConfigurationError(
            f"the schema of {address.display} cannot be read or created: {_driver_message(error)}"
        ) from error
    except sqlite3.Error as error:
        raise ConfigurationError(explain_error(error, address.database)) from error


def _driver_message(error: sa.exc.DBAPIError) -> str:
    """Return the server's message, which is the last argument of every driver's error."""
    assert error.orig is not None
    driver_error = error.orig.__cause__ or error.orig
    message = driver_error.args[-1] if driver_error.args else type(driver_error).__name__
    return str(message)


@asynccontextmanager
async def _open_locked(database: Database, address: Address) -> AsyncIterator[AsyncConnection]:
    """Open a connection for writing, under a lock that only one upgrade holds at a time."""
    path = address.file
    file_lock = None if path is None else await asyncio.to_thread(_acquire_file_lock, path)
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
        if file_lock is not None:
            file_lock.release()
            file_lock.close()


def _acquire_file_lock(path: Path) -> FileLock:
    create_private_file(path)
    lock_path = Path(f"{path}{LOCK_SUFFIX}")
    try:
        file_lock = FileLock(lock_path)
    except OSError as error:
        raise ConfigurationError(
            f"the file {str(lock_path)!r} cannot be created ({error.strerror}); "
            "let headway write to the folder of its database"
        ) from error
    file_lock.acquire()
    return file_lock


def _version_folders() -> list[Path]:
    return [Path(folder) / "versions" for folder in migrations.__path__]


def _known_revisions() -> list[str]:
    """Return this program's revisions, oldest first. `m0001_runs.py` creates revision 0001."""
    files = (file for folder in _version_folders() for file in folder.glob("m*.py"))
    return sorted(file.name[1:5] for file in files)


def _find_revision(connection: sa.Connection, address: Address) -> str | None:
    """Return the schema's revision, or None if there is no schema yet.

    Raise ForeignDatabase if the tables are another program's. Raise SchemaMismatch if they are a
    newer headway's.
    """
    columns = read_columns(connection)
    revision = read_revision(connection, columns)
    own_revisions = _known_revisions()
    evidence = find_foreign(columns, revision, known=own_revisions)
    if evidence is not None:
        raise ForeignDatabase(address.display, evidence)
    if revision is not None and revision not in own_revisions:
        raise SchemaMismatch(
            f"the schema of {address.display} is at {revision}, which is newer than this program"
        )
    return revision


def _copy_file(path: Path, revision: str) -> None:
    """Copy the database file within its folder. Called before a migration."""
    copy = path.with_name(f"{path.name}.before-{revision}")
    create_private_file(copy)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def _run_migrations(connection: sa.Connection) -> None:
    # Imported here: only migrations need these, and the import takes a quarter of the start-up.
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
