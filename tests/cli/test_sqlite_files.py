"""Foreign, damaged and read-only database files are refused and left unchanged."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headway.adapters.sql.connect.sqlite import has_headway_tables
from tests.cli.command import TIMEOUT_S, CommandResult, contents, environment, headway, refusal
from tests.cli.disk import bound_by_permissions

pytestmark = pytest.mark.backend("sqlite")


def at(path: Path) -> dict[str, str]:
    return {"HEADWAY_DATABASE_URL": f"sqlite:///{path}"}


@pytest.fixture(params=["upgrade", "check"])
def verb(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def in_rollback_mode(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE letters (text)")


def in_wal_mode(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE letters (text)")


@pytest.mark.proves("S7")
@pytest.mark.parametrize(
    ("make", "verb"),
    [(in_rollback_mode, "upgrade"), (in_wal_mode, "check")],
)
def test_file_of_another_program_is_left_unchanged(
    folder: Path, make: Callable[[Path], None], verb: str
) -> None:
    path = folder / "letters.db"
    make(path)
    assert refusal("db", verb, folder=folder, **at(path)) == (
        f"the database file '{path}' belongs to another program (its tables: letters);"
        " name another file"
    )


def test_file_that_is_not_a_database_is_left_unchanged(folder: Path, verb: str) -> None:
    path = folder / "noise.db"
    path.write_bytes(os.urandom(20_000))
    assert refusal("db", verb, folder=folder, **at(path)) == (
        f"the database file '{path}' is not a SQLite database; name another file"
    )


def test_truncated_file_is_left_unchanged(folder: Path, our_bytes: bytes) -> None:
    path = folder / "headway.db"
    path.write_bytes(our_bytes[: len(our_bytes) // 2])
    assert refusal("db", "upgrade", folder=folder, **at(path)) == (
        f"the database file '{path}' is damaged; restore it from a copy, or name another file"
    )


def test_empty_file_becomes_a_headway_database(folder: Path) -> None:
    path = folder / "headway.db"
    path.touch()
    assert headway("db", "upgrade", folder=folder, **at(path)).code == 0
    assert has_headway_tables(path)


def test_check_does_not_create_a_missing_file(folder: Path) -> None:
    path = folder / "new" / "headway.db"
    assert refusal("db", "check", folder=folder, **at(path)) == (
        f"the database sqlite:///{path} has no headway schema; run: headway db upgrade"
    )


@pytest.mark.proves("I23")
def test_file_of_a_newer_headway_is_left_unchanged(
    folder: Path, our_bytes: bytes, verb: str
) -> None:
    path = folder / "headway.db"
    path.write_bytes(our_bytes)
    path.with_name("headway.db.lock").touch()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'zzzz'")
    assert refusal("db", verb, folder=folder, **at(path)) == (
        f"the schema of sqlite:///{path} is at zzzz, which is newer than this program;"
        " upgrade headway"
    )


def test_folder_instead_of_a_file_is_refused(folder: Path) -> None:
    assert refusal("db", "check", folder=folder, **at(folder)) == (
        f"'{folder}' is a folder, not a database file; name a file"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [("taken/headway.db", "Not a directory"), ("/proc/headway.db", "No such file or directory")],
)
def test_path_that_cannot_contain_a_file_is_named(folder: Path, name: str, reason: str) -> None:
    (folder / "taken").write_text("A file, not a folder.")
    path = folder / name
    assert refusal("db", "upgrade", folder=folder, **at(path)) == (
        f"the database file '{path}' cannot be opened ({reason});"
        " name a file in a folder that headway may write"
    )


def test_read_only_folder_is_named(folder: Path) -> None:
    path = folder / "headway.db"
    folder.chmod(0o555)
    within = bound_by_permissions()
    assert refusal("db", "upgrade", folder=folder, within=within, **at(path)) == (
        f"the database file '{path}' cannot be opened (Permission denied);"
        " name a file in a folder that headway may write"
    )
    folder.chmod(0o755)


def test_writable_file_in_a_read_only_folder_is_named(folder: Path, our_bytes: bytes) -> None:
    path = folder / "headway.db"
    path.write_bytes(our_bytes)
    folder.chmod(0o555)
    within = bound_by_permissions()
    assert refusal("db", "upgrade", folder=folder, within=within, **at(path)) == (
        f"the file '{path}.lock' cannot be created (Permission denied);"
        " let headway write to the folder of its database"
    )
    assert refusal("db", "check", folder=folder, within=within, **at(path)) == (
        f"the database file '{path}' cannot be written; let headway write to it and to its folder"
    )
    folder.chmod(0o755)


def test_read_only_file_is_named_when_a_program_opens_it(folder: Path, our_bytes: bytes) -> None:
    path = folder / "headway.db"
    path.write_bytes(our_bytes)
    path.chmod(0o444)
    program = (
        "import asyncio, headway\n"
        "async def main():\n"
        "    try:\n"
        f"        async with headway.Headway('sqlite:///{path}'): pass\n"
        "    except headway.ConfigurationError as error:\n"
        "        print(error)\n"
        "asyncio.run(main())\n"
    )
    result = subprocess.run(
        [*bound_by_permissions(), sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (result.stderr, result.stdout) == (
        "",
        (
            f"the database file '{path}' cannot be written;"
            " let headway write to it and to its folder\n"
        ),
    )


@pytest.mark.proves("I23")
def test_upgrade_creates_the_schema_once_and_check_reports_it(folder: Path) -> None:
    """Without settings the file is `headway.db` in this folder, private to its owner."""
    assert headway("db", "upgrade", folder=folder) == CommandResult(
        0, f"the schema is at 0004\ndatabase: sqlite:///{folder}/headway.db\n", ""
    )
    before = contents(folder)
    assert set(before) == {"headway.db", "headway.db.lock"}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    output = f'{{"schema": "0004", "database": "sqlite:///{folder}/headway.db"}}\n'
    again = headway("db", "upgrade", "--json", folder=folder)
    assert again == CommandResult(0, output, "")
    check = headway("db", "check", folder=folder)
    assert (check.code, check.out.splitlines()[0]) == (0, "the schema is current: 0004")
    as_json = headway("db", "check", "--json", folder=folder)
    assert as_json == CommandResult(0, output, "")
    assert contents(folder) == before


@pytest.mark.proves("I3")
@pytest.mark.parametrize(
    "arguments", [("doctor",), ("db", "check"), ("db", "upgrade")], ids=" ".join
)
def test_missing_file_with_an_existing_log_is_not_replaced(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    """These files exist while a server uses a database file that was deleted."""
    log = folder / "headway.db-wal"
    log.write_bytes(b"commits")
    sentence = refusal(*arguments, folder=folder)
    assert "is missing or empty, but its log 'headway.db-wal' exists" in sentence
    assert "put the file back, or also remove the files" in sentence
