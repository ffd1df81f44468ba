"""Check whether the tables of a database belong to headway, before anything is changed.

Migrations create tables with IF NOT EXISTS, because MariaDB commits each of their statements
separately, and it must be possible to continue an interrupted upgrade. They would silently adopt
another program's table of the same name. So the tables count as headway's only if their columns
fit the recorded revision:

- If the revision is this program's newest, every table must exist, with at least its columns.
- If the revision is older, or none is recorded (an interrupted first upgrade), each table with one
  of headway's names must have all columns with which revision 0001 creates it, and no column that
  headway does not have. Tables and columns may have their old or their new names. Migrations only
  add and rename, so every older schema and every half-upgraded schema meets this condition.
- If the revision is unknown, the table `stream` must exist with its columns. If it does, the schema
  is a newer headway's. Otherwise the schema is another program's: `alembic_version` is Alembic's
  default name for the version table, so other programs have such a table too.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from headway.adapters.sql.migrations.renames import RENAMED_COLUMNS, RENAMED_TABLES
from headway.adapters.sql.tables import metadata, stream

VERSION_TABLE: Final = "alembic_version"
VERSION_COLUMN: Final = "version_num"
COLUMN_COUNT_SHOWN: Final = 6
OWN_COLUMNS: Final[Mapping[str, frozenset[str]]] = {
    table.name: frozenset(column.name for column in table.columns)
    for table in metadata.sorted_tables
}
ADDED_LATER: Final = {
    "runs": frozenset({"stop_count", "updated_at", "traceback"}),
    "lanes": frozenset({"configured_limit"}),
}
"""Columns that a revision after 0001 added."""
FIRST_COLUMNS: Final = {
    name: own - ADDED_LATER.get(name, frozenset()) for name, own in OWN_COLUMNS.items()
}
"""The columns with which revision 0001 creates each table, in one statement."""
SIGNATURE: Final = frozenset({"cluster_id", "epoch", "seq"})
"""Columns of `stream` that every revision has and other programs are unlikely to have."""
# PostgreSQL's information_schema hides tables that the role may not use.
_COLUMNS: Final = {
    "sqlite": """
        SELECT item.name, field.name FROM sqlite_master AS item
        JOIN pragma_table_info(item.name) AS field
        WHERE item.type IN ('table', 'view') AND item.name IN :names
        ORDER BY item.name, field.cid""",
    "postgresql": """
        SELECT item.relname, field.attname FROM pg_class AS item
        JOIN pg_attribute AS field ON field.attrelid = item.oid
        WHERE item.relname IN :names AND item.relkind IN ('r', 'p', 'v', 'm', 'f')
        AND pg_table_is_visible(item.oid) AND field.attnum > 0 AND NOT field.attisdropped
        ORDER BY item.relname, field.attnum""",
    "mysql": """
        SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name IN :names
        ORDER BY table_name, ordinal_position""",
}

Columns = Mapping[str, Sequence[str]]
"""For each table name, the names of the table's columns in their order."""


def read_columns(connection: sa.Connection) -> Columns:
    """Return the columns of all tables that have an old or current name of a headway table.

    Another program may have created some of these tables.
    """
    dialect = "mysql" if connection.dialect.name == "mariadb" else connection.dialect.name
    query = sa.text(_COLUMNS[dialect]).bindparams(sa.bindparam("names", expanding=True))
    columns: dict[str, list[str]] = {}
    names = [*OWN_COLUMNS, *RENAMED_TABLES, VERSION_TABLE]
    for table, column in connection.execute(query, {"names": names}):
        columns.setdefault(table.lower(), []).append(column.lower())
    return columns


def read_revision(connection: sa.Connection, columns: Columns) -> str | None:
    """Return the recorded revision, which may be another program's, or None if there is none."""
    if VERSION_COLUMN not in columns.get(VERSION_TABLE, ()):
        return None
    query = sa.text(f"SELECT {VERSION_COLUMN} FROM {VERSION_TABLE}")
    revision: str | None = connection.scalar(query)
    return revision


def find_foreign(columns: Columns, revision: str | None, *, known: Sequence[str]) -> str | None:
    """Return the evidence that another program uses the database, or None if there is none.

    `known` are this program's revisions, oldest first.
    """
    if VERSION_TABLE in columns and VERSION_COLUMN not in columns[VERSION_TABLE]:
        return f"its table {_describe(VERSION_TABLE, columns)} records no revision of headway's"
    has_stream = SIGNATURE.issubset(columns.get(stream.name, ()))
    if revision is not None and revision not in known:
        foreign = f"its {VERSION_TABLE} records revision {revision!r}, which is not headway's"
        return None if has_stream else foreign
    if revision == known[-1]:
        return _find_incomplete(columns, revision)
    if revision is not None and not has_stream:
        return f"its {VERSION_TABLE} records revision {revision!r}, but it lacks headway's tables"
    strange = [
        name
        for name, names in columns.items()
        if name != VERSION_TABLE and not _may_be_own(name, _to_current_names(name, names))
    ]
    if not strange:
        return None
    return f"{_describe_all(strange, columns)} not headway's, but headway needs the name"


def _may_be_own(table: str, columns: set[str]) -> bool:
    current = RENAMED_TABLES.get(table, table)
    return FIRST_COLUMNS[current] <= columns <= OWN_COLUMNS[current]


def _to_current_names(table: str, columns: Sequence[str]) -> set[str]:
    renamed = RENAMED_COLUMNS.get(table, {})
    return {renamed.get(column, column) for column in columns}


def _find_incomplete(columns: Columns, revision: str) -> str | None:
    strange = [
        name
        for name in columns
        if name in OWN_COLUMNS and not OWN_COLUMNS[name] <= set(columns[name])
    ]
    if strange:
        return (
            f"it records revision {revision}, but {_describe_all(strange, columns)} not headway's"
        )
    missing = sorted(OWN_COLUMNS.keys() - columns.keys())
    if missing:
        return f"it records revision {revision}, but lacks the tables {', '.join(missing)}"
    return None


def _describe_all(names: Collection[str], columns: Columns) -> str:
    described = ", ".join(_describe(name, columns) for name in sorted(names))
    return f"the table {described} is" if len(names) == 1 else f"the tables {described} are"


def _describe(name: str, columns: Columns) -> str:
    shown = ", ".join(columns[name][:COLUMN_COUNT_SHOWN])
    more = ", …" if len(columns[name]) > COLUMN_COUNT_SHOWN else ""
    return f"{name} ({shown}{more})"
