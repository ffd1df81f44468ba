"""Add columns for stop counts, tracebacks, update times and configured limits.

Revision ID: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

DOCUMENT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    # MariaDB and MySQL commit each statement separately. A second attempt may find columns.
    _extend_runs()
    _extend_lanes()


def _extend_runs() -> None:
    _add_column("runs", sa.Column("stop_count", sa.Integer(), nullable=False, server_default="0"))
    _add_column("runs", sa.Column("updated_at", sa.BigInteger(), nullable=True))
    _add_column("runs", sa.Column("traceback", DOCUMENT, nullable=True))
    op.execute(
        "UPDATE runs SET updated_at = COALESCE(ended_at, started_at, queued_at)"
        " WHERE updated_at IS NULL"
    )


def _extend_lanes() -> None:
    _add_column("lanes", sa.Column("configured_limit", sa.Integer(), nullable=True))


def _add_column(table: str, column: "sa.Column[int] | sa.Column[str]") -> None:
    existing = {field["name"] for field in sa.inspect(op.get_bind()).get_columns(table)}
    if column.name not in existing:
        op.add_column(table, column)
