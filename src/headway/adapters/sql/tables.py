"""The tables, with the same types on every database.

Instants are microseconds, flags are 0 or 1, documents are text. MariaDB and MySQL have no partial
indexes, so a nullable column is used instead: it has a value only while its index should find the
row. That keeps the index small on every database.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

metadata: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _table(name: str, *items: sa.schema.SchemaItem) -> sa.Table:
    # Text is compared byte by byte on every database. By default `Ann` equals `ann` on MariaDB.
    return sa.Table(name, metadata, *items, mysql_charset="utf8mb4", mysql_collate="utf8mb4_bin")


def _seq_column() -> sa.Column[int]:
    # On SQLite an INTEGER primary key is the row id itself and needs no separate index.
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("seq", number, primary_key=True, autoincrement=False)


def _string_type(length: int = 255) -> sa.types.TypeEngine[str]:
    return sa.String(length)


def _text_type() -> sa.types.TypeEngine[str]:
    return sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def _status_condition(statuses: frozenset[RunStatus]) -> str:
    values = ", ".join(sorted(f"'{status}'" for status in statuses))
    return f"status IN ({values})"


def _partial_index(*columns: str, name: str | None = None, unique: bool = False) -> sa.Index:
    """Return an index of the rows in which `columns[0]` is not NULL; on MySQL, of all rows."""
    is_set = sa.text(f"{columns[0]} IS NOT NULL")
    return sa.Index(name, *columns, unique=unique, sqlite_where=is_set, postgresql_where=is_set)


runs: Final = _table(
    "runs",
    _seq_column(),
    sa.Column("id", _string_type(36), nullable=False, unique=True),
    sa.Column("key", _string_type(), nullable=False),
    sa.Column("lane", _string_type(), nullable=False),
    sa.Column("job", _string_type(), nullable=False),
    sa.Column("mode", _string_type(16), nullable=False),
    sa.Column("recovery", _string_type(16), nullable=False),
    sa.Column("status", _string_type(16), nullable=False),
    # The key while this run is the head of its key, otherwise NULL. Unique: one head per key.
    sa.Column("head_key", _string_type()),
    sa.Column("waiting_key", _string_type()),
    sa.Column("queue_rank", sa.SmallInteger),
    sa.Column("ready_seq", sa.BigInteger),
    sa.Column("slot", _string_type()),
    sa.Column("instance_id", _string_type(36)),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("token", _string_type(64), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("death_count", sa.Integer, nullable=False),
    sa.Column("window", sa.SmallInteger, nullable=False),
    sa.Column("unread_count", sa.Integer, nullable=False),
    sa.Column("queued_at", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("ended_at", sa.BigInteger),
    sa.Column("queue_deadline_at", sa.BigInteger),
    sa.Column("timeout_us", sa.BigInteger),
    sa.Column("run_deadline_at", sa.BigInteger),
    sa.Column("wake_at", sa.BigInteger),
    sa.Column("cancel_deadline_at", sa.BigInteger),
    sa.Column("due_at", sa.BigInteger),
    sa.Column("run_seq", sa.Integer, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("continued_from", _string_type(36)),
    sa.Column("parent_id", _string_type(36)),
    # The parent while this run is active, NULL afterwards. Finds the children to cancel.
    sa.Column("child_of", _string_type(36)),
    sa.Column("is_parent", sa.SmallInteger, nullable=False),
    sa.Column("children_ending_since", sa.BigInteger),
    sa.Column("on_existing_output", _string_type(16)),
    sa.Column("delete_files_on_cancel", sa.SmallInteger),
    sa.Column("traceparent", _string_type(55)),
    sa.Column("stop_count", sa.Integer, nullable=False, server_default="0"),
    # NULL only in rows that a program of revision 0001 wrote.
    sa.Column("updated_at", sa.BigInteger),
    sa.Column("params", _text_type(), nullable=False),
    sa.Column("progress", _text_type()),
    sa.Column("checkpoint", _text_type()),
    sa.Column("result", _text_type()),
    sa.Column("error", _text_type()),
    sa.Column("cancel", _text_type()),
    sa.Column("traceback", _text_type()),
    sa.CheckConstraint(
        f"(ended_at IS NOT NULL) = ({_status_condition(TERMINAL)})", name="ended_iff_terminal"
    ),
    sa.CheckConstraint("slot IS NULL OR head_key IS NOT NULL", name="only_a_head_holds_a_slot"),
    sa.CheckConstraint("head_key IS NULL OR waiting_key IS NULL", name="head_or_waiting"),
    sa.CheckConstraint("instance_id IS NULL OR token <> ''", name="a_holder_has_a_token"),
    _partial_index("head_key", name="uq_runs_head_key", unique=True),
    _partial_index("waiting_key", "seq"),
    sa.Index(
        "ix_runs_queue",
        "lane",
        "queue_rank",
        "ready_seq",
        sqlite_where=sa.text("queue_rank IS NOT NULL"),
        postgresql_where=sa.text("queue_rank IS NOT NULL"),
    ),
    _partial_index("slot"),
    _partial_index("due_at"),
    _partial_index("child_of", "seq"),
    sa.Index("ix_runs_key_seq", "key", "seq"),
    # For lists: the most common filters, each index in page order.
    sa.Index("ix_runs_status_seq", "status", "seq"),
    sa.Index("ix_runs_job_seq", "job", "seq"),
    sa.Index("ix_runs_lane_seq", "lane", "seq"),
)
RUN_COLUMNS: Final = [runs.c[name] for name in Run._fields]

events: Final = _table(
    "events",
    _seq_column(),
    sa.Column("run_id", _string_type(36)),
    sa.Column("run_seq", sa.Integer),
    sa.Column("key", _string_type()),
    sa.Column("lane", _string_type()),
    sa.Column("type", _string_type(64), nullable=False),
    sa.Column("payload", _text_type(), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("run_id", "run_seq"),
)

lanes: Final = _table(
    "lanes",
    sa.Column("name", _string_type(), primary_key=True),
    sa.Column("max_concurrent", sa.Integer, nullable=False),
    sa.Column("max_queued", sa.Integer),
    sa.Column("is_paused", sa.SmallInteger, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("is_set_by_hand", sa.SmallInteger, nullable=False),
    sa.Column("configured_limit", sa.Integer),
)

instances: Final = _table(
    "instances",
    sa.Column("id", _string_type(36), primary_key=True),
    sa.Column("lease_expires_at", sa.BigInteger, nullable=False),
    sa.Column("is_dead", sa.SmallInteger, nullable=False),
    sa.Column("host", _string_type(), nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("life_lock", _string_type(128)),
)

inbox: Final = _table(
    "inbox",
    sa.Column("run_id", _string_type(36), primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", _string_type(32), nullable=False),
    sa.Column("call_id", _string_type(64)),
    sa.Column("payload", _text_type(), nullable=False),
    sa.Column("by", _string_type(), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("consumed_generation", sa.Integer),
)

interrupts: Final = _table(
    "interrupts",
    sa.Column("run_id", _string_type(36), primary_key=True),
    sa.Column("call_id", _string_type(64), primary_key=True),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("question", _text_type(), nullable=False),
    sa.Column("asked_at", sa.BigInteger, nullable=False),
    sa.Column("answer_deadline_at", sa.BigInteger, nullable=False),
    sa.Column("answer_schema", _text_type()),
    sa.Column("default_answer", _text_type()),
    sa.Column("answer", _text_type()),
    sa.Column("answered_by", _string_type()),
    sa.Column("answered_at", sa.BigInteger),
)

# The finished files in the data directories, one row per file.
run_files: Final = _table(
    "run_files",
    sa.Column("key", _string_type(), primary_key=True),
    sa.Column("data_id", _string_type(36), primary_key=True),
    sa.Column("path", _string_type(), primary_key=True),
    sa.Column("run_id", _string_type(36), nullable=False, index=True),
    sa.Column("part", _string_type(), nullable=False),
    sa.Column("byte_count", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)

saved_keys: Final = _table(
    "saved_keys",
    sa.Column("key", _string_type(), primary_key=True),
    sa.Column("job", _string_type(), nullable=False),
    sa.Column("params", _text_type(), nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
)

schedules: Final = _table(
    "schedules",
    sa.Column("name", _string_type(), primary_key=True),
    sa.Column("expression", _string_type(), nullable=False),
    sa.Column("time_zone", _string_type(), nullable=False),
    sa.Column("last_fire_at", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("is_paused", sa.SmallInteger, nullable=False),
)

idempotency_keys: Final = _table(
    "idempotency_keys",
    sa.Column("idempotency_key", _string_type(), primary_key=True),
    sa.Column("run_id", _string_type(36), nullable=False),
    sa.Column("fingerprint", _string_type(64), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False, index=True),
)

flows: Final = _table(
    "flows",
    sa.Column("name", _string_type(), primary_key=True),
    sa.Column("id", _string_type(64), nullable=False, unique=True),
    sa.Column("latest", sa.Integer, nullable=False),
    sa.Column("published", sa.Integer, nullable=False),
    sa.Column("digest", _string_type(64), nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
)

flow_versions: Final = _table(
    "flow_versions",
    sa.Column("flow", _string_type(), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("id", _string_type(80), nullable=False, unique=True),
    sa.Column("definition", _text_type(), nullable=False),
    sa.Column("status", _string_type(16), nullable=False),
    sa.Column("digest", _string_type(64), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
)

# One row per flow task, with the data that its row in `runs` does not have. `standing` is the
# stored state of the task. It is NULL until the first step is stored.
flow_runs: Final = _table(
    "flow_runs",
    sa.Column("run_id", _string_type(36), primary_key=True),
    sa.Column("flow", _string_type(), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("node", _string_type(), nullable=False),
    sa.Column("standing", _text_type()),
    sa.Column("inner_shared", _text_type()),
    sa.Column("frozen_input", _text_type()),
    sa.Column("waits_for", _string_type(16)),
    sa.Column("updated_at", sa.BigInteger, nullable=False, index=True),
    sa.Column("rerun_of", _string_type(36)),
    _partial_index("waits_for", "updated_at"),
)

flow_shared: Final = _table(
    "flow_shared",
    sa.Column("run_id", _string_type(36), primary_key=True),
    sa.Column("name", _string_type(520), primary_key=True),
    sa.Column("value", _text_type(), nullable=False),
)

node_runs: Final = _table(
    "node_runs",
    sa.Column("run_id", _string_type(36), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("node_key", _string_type(), nullable=False),
    sa.Column("path", _text_type(), nullable=False),
    sa.Column("branch", sa.Integer),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("status", _string_type(16), nullable=False),
    sa.Column("prep", _text_type(), nullable=False),
    sa.Column("input", _text_type(), nullable=False),
    sa.Column("output", _text_type(), nullable=False),
    sa.Column("error", _text_type(), nullable=False),
    sa.Column("action", _string_type(), nullable=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("finished_at", sa.BigInteger, nullable=False),
    sa.Column("worker_id", _string_type()),
    sa.Column("worker_url", _text_type()),
    sa.Column("is_settled", sa.SmallInteger, nullable=False),
)

workers: Final = _table(
    "workers",
    sa.Column("id", _string_type(), primary_key=True),
    sa.Column("url", _string_type(500), nullable=False),
    sa.Column("services", _text_type(), nullable=False),
    sa.Column("load", sa.Integer, nullable=False),
    sa.Column("heartbeat_at", sa.BigInteger, nullable=False, index=True),
)

# One row. `seq` is the number of the last event. Every batch locks this row last, so that events
# are numbered in commit order. `cluster_id` distinguishes this cluster from others. `epoch`
# distinguishes an old primary from the current one.
stream: Final = _table(
    "stream",
    sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("cluster_id", _string_type(36), nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("pruned_seq", sa.BigInteger, nullable=False),
)

# One row per writer with the number of its last batch. If the answer to a COMMIT is lost, the
# writer reads its row to find out whether the batch was committed.
writers: Final = _table(
    "writers",
    sa.Column("id", _string_type(36), primary_key=True),
    sa.Column("batch", sa.BigInteger, nullable=False),
    sa.Column("seen_at", sa.BigInteger, nullable=False),
)
