"""Rename tables so that their names describe their rows.

Revision ID: 0004
"""

import sqlalchemy as sa
from alembic import op

from headway.adapters.sql.migrations.renames import RENAMED_TABLES

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # MariaDB and MySQL commit each statement separately. An interrupted upgrade may have renamed
    # some tables.
    existing = sa.inspect(op.get_bind()).get_table_names()
    for old, new in RENAMED_TABLES.items():
        if op.get_bind().dialect.name == "sqlite":
            _rebuild(old, new)
        else:
            if old in existing:
                op.rename_table(old, new)
            _rename_constraints_and_indexes(old, new)


def _rebuild(old: str, new: str) -> None:
    """Copy a table to its new name. SQLite can rename neither an index nor a constraint."""
    connection = op.get_bind()
    # The definitions of the table and of its indexes, the table first.
    select = sa.text(
        "SELECT sql FROM sqlite_master WHERE tbl_name = :table AND sql IS NOT NULL"
        " ORDER BY type DESC"
    )
    table, *indexes = connection.scalars(select, {"table": old}).all()
    connection.exec_driver_sql(table.replace(old, new))
    connection.exec_driver_sql(f"INSERT INTO {new} SELECT * FROM {old}")
    connection.exec_driver_sql(f"DROP TABLE {old}")
    for index in indexes:
        connection.exec_driver_sql(index.replace(old, new))


def _rename_constraints_and_indexes(old: str, new: str) -> None:
    connection = op.get_bind()
    is_postgres = connection.dialect.name == "postgresql"
    if is_postgres:  # PostgreSQL names primary keys and, since 18, NOT NULL constraints.
        select = sa.text("SELECT conname FROM pg_constraint WHERE conrelid = to_regclass(:table)")
        for name in connection.scalars(select, {"table": new}).all():
            if old in name:
                renamed = name.replace(old, new)
                op.execute(f"ALTER TABLE {new} RENAME CONSTRAINT {name} TO {renamed}")
    for index in sa.inspect(connection).get_indexes(new):
        name = str(index["name"])
        if old in name:
            change = "ALTER INDEX" if is_postgres else f"ALTER TABLE {new} RENAME INDEX"
            to = "RENAME TO" if is_postgres else "TO"
            op.execute(f"{change} {name} {to} {name.replace(old, new)}")
