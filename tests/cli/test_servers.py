"""The schema on a server: created only by `db upgrade`, never by a check or a start."""

from pathlib import Path

import pytest

from headway import Headway
from headway.core.errors import SchemaMismatch
from tests.cli.command import CommandResult, headway, refusal
from tests.cli.conftest import ServerDatabase

pytestmark = pytest.mark.parametrize("backend", ["postgres", "mariadb"])


def masked(url: str) -> str:
    """Return the URL as messages show it, without the password."""
    return url.replace(":headway@", ":***@")


@pytest.mark.proves("R4.3")
async def test_program_stops_without_a_schema_and_creates_none(
    folder: Path, server_database: ServerDatabase
) -> None:
    sentence = (
        f"the database {masked(server_database.url)} has no headway schema; run: headway db upgrade"
    )
    settings = {"HEADWAY_DATABASE_URL": server_database.url}
    assert refusal("db", "check", folder=folder, **settings) == sentence
    with pytest.raises(SchemaMismatch) as raised:
        await Headway(server_database.url).__aenter__()
    assert str(raised.value) == sentence
    assert server_database.table_count() == 0


@pytest.mark.proves("I23")
def test_upgrade_creates_the_schema_once_and_refuses_a_newer_one(
    folder: Path, server_database: ServerDatabase
) -> None:
    settings = {"HEADWAY_DATABASE_URL": server_database.url}
    database = f"database: {masked(server_database.url)}\n"
    upgraded = CommandResult(0, f"the schema is at 0004\n{database}", "")
    assert headway("db", "upgrade", folder=folder, **settings) == upgraded
    table_count = server_database.table_count()
    assert headway("db", "upgrade", folder=folder, **settings) == upgraded
    current = CommandResult(0, f"the schema is current: 0004\n{database}", "")
    assert headway("db", "check", folder=folder, **settings) == current
    server_database.execute("UPDATE alembic_version SET version_num = 'zzzz'")
    for verb in ("check", "upgrade"):
        assert refusal("db", verb, folder=folder, **settings) == (
            f"the schema of {masked(server_database.url)} is at zzzz,"
            " which is newer than this program; upgrade headway"
        )
    assert server_database.execute("SELECT version_num FROM alembic_version") == "zzzz"
    assert server_database.table_count() == table_count


@pytest.mark.proves("R8.5")
@pytest.mark.parametrize(
    "command",
    [
        ("db", "check"),
        ("db", "upgrade"),
        ("db", "prune"),
        ("doctor",),
        ("run", "list"),
        ("run", "submit", "echo"),
        ("lane", "list"),
        ("serve", "--port", "0"),
    ],
    ids=" ".join,
)
def test_every_command_refuses_another_programs_database_in_one_sentence(
    folder: Path, server_database: ServerDatabase, command: tuple[str, ...]
) -> None:
    server_database.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, title VARCHAR(80))")
    server_database.execute("INSERT INTO events VALUES (1, 'concert')")
    (folder / "jobs.py").write_text("from headway import Headway\n\nhw = Headway()\n")
    settings = {"HEADWAY_DATABASE_URL": server_database.url, "HEADWAY_APP": "jobs:hw"}
    assert refusal(*command, folder=folder, **settings) == (
        f"the database {masked(server_database.url)} seems to belong to another program: the table"
        " events (id, title) is not headway's, but headway needs the name; nothing was changed;"
        " give headway a database of its own (or restore this one, if it is headway's)"
    )
    assert server_database.table_count() == 1
    assert server_database.execute("SELECT title FROM events") == "concert"


@pytest.mark.proves("I23")
def test_role_without_the_right_to_create_tables_is_reported(
    folder: Path, server_database: ServerDatabase, backend: str
) -> None:
    if backend == "postgres":
        server_database.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        url = server_database.url.replace("headway@", "app@")
        reason = "permission denied for schema public"
    else:
        name = server_database.url.rpartition("/")[2]
        server_database.execute(f"CREATE USER {name} IDENTIFIED BY 'headway'")
        server_database.execute(f"GRANT SELECT ON {name}.* TO {name}")
        url = server_database.url.replace("//headway:", f"//{name}:")
        reason = "CREATE command denied to user"
    sentence = refusal("db", "upgrade", folder=folder, HEADWAY_DATABASE_URL=url)
    assert sentence.startswith(f"the schema of {masked(url)} cannot be read or created: {reason}")
    assert server_database.table_count() == 0
