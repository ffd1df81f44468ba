"""The schema on a server: made by `db upgrade` alone, never by looking or by starting."""

from pathlib import Path

import pytest

from headway import Headway
from headway.core.errors import SchemaMismatch
from tests.cli.command import Ended, headway, refusal
from tests.cli.conftest import ServerDatabase

pytestmark = pytest.mark.parametrize("backend", ["postgres", "mariadb"])


def shown(url: str) -> str:
    """As messages show it: without the password."""
    return url.replace(":headway@", ":***@")


@pytest.mark.proves("R4.3")
async def test_a_missing_schema_stops_the_program_which_makes_none(
    folder: Path, server_database: ServerDatabase
) -> None:
    sentence = (
        f"the database {shown(server_database.url)} has no headway schema; run: headway db upgrade"
    )
    settings = {"HEADWAY_DATABASE_URL": server_database.url}
    assert refusal("db", "check", folder=folder, **settings) == sentence
    with pytest.raises(SchemaMismatch) as raised:
        await Headway(server_database.url).__aenter__()
    assert str(raised.value) == sentence
    assert server_database.table_count() == 0


@pytest.mark.proves("I23")
def test_upgrade_makes_the_schema_once_and_a_newer_one_is_refused(
    folder: Path, server_database: ServerDatabase
) -> None:
    settings = {"HEADWAY_DATABASE_URL": server_database.url}
    database = f"database: {shown(server_database.url)}\n"
    made = Ended(0, f"the schema is at 0003\n{database}", "")
    assert headway("db", "upgrade", folder=folder, **settings) == made
    table_count = server_database.table_count()
    assert headway("db", "upgrade", folder=folder, **settings) == made
    current = Ended(0, f"the schema is current: 0002\n{database}", "")
    assert headway("db", "check", folder=folder, **settings) == current
    server_database.execute("UPDATE alembic_version SET version_num = 'zzzz'")
    for verb in ("check", "upgrade"):
        assert refusal("db", verb, folder=folder, **settings) == (
            f"the schema of {shown(server_database.url)} is at zzzz,"
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
        f"the database {shown(server_database.url)} seems to belong to another program: the table"
        " events (id, title) is not headway's, but headway needs the name; nothing was changed;"
        " give headway a database of its own (or restore this one, if it is headway's)"
    )
    assert server_database.table_count() == 1
    assert server_database.execute("SELECT title FROM events") == "concert"


@pytest.mark.proves("I23")
def test_a_role_that_may_not_make_tables_is_told_so(
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
    assert sentence.startswith(f"the schema of {shown(url)} cannot be read or made: {reason}")
    assert server_database.table_count() == 0
