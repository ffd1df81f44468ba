"""Rename columns so that their names describe their values.

Revision ID: 0003
"""

import sqlalchemy as sa
from alembic import op

from headway.adapters.sql.migrations.renames import RENAMED_COLUMNS

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # MariaDB and MySQL commit each statement separately. An interrupted upgrade may have renamed
    # some columns.
    quote = op.get_bind().dialect.identifier_preparer.quote
    for table, columns in RENAMED_COLUMNS.items():
        existing = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
        for old, new in columns.items():
            if old in existing:
                op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {quote(new)}")
