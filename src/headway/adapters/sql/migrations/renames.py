"""Tables and columns that migrations renamed: the old name and the new name.

These names are not in the migrations, because the ownership check reads them at every start. A
migration imports Alembic, and that import takes a quarter of the start-up time.
"""

from collections.abc import Mapping
from typing import Final

RENAMED_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
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
"""The columns that revision 0003 renamed, by the name of their table at that revision."""
RENAMED_TABLES: Final[Mapping[str, str]] = {
    "questions": "interrupts",
    "remembered": "idempotency_keys",
}
"""Tables renamed by revision 0004."""
