"""Rename columns so that their names describe their values.

Revision ID: 0003
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

RENAMES: Final = {
    "runs": {
        "is_interactive": "window",
        "queue_by": "queue_deadline_at",
        "run_by": "run_deadline_at",
        "cancel_by": "cancel_deadline_at",
        "children_by": "children_ending_since",
        "existing": "on_existing_output",
        "deletes_files": "delete_files_on_cancel",
    },
    "inbox": {"consumed_by": "consumed_generation"},
    "questions": {"answer_by": "answer_deadline_at"},
    "schedules": {"last_slot_at": "last_fire_at"},
}


def upgrade() -> None:
    # MariaDB and MySQL commit each statement separately. A second attempt finds some renamed.
    quote = op.get_bind().dialect.identifier_preparer.quote
    for table, columns in RENAMES.items():
        existing = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
        for old, new in columns.items():
            if old in existing:
                op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {quote(new)}")
