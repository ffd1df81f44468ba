"""Create all tables: runs, events, lanes, instances, flows and the rest.

Revision ID: 0001
"""

import uuid

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from headway.adapters.sql.migrations.flow_tables import create_flow_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

DOCUMENT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
SEQ = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    # MariaDB and MySQL commit each statement separately. A second attempt may find tables.
    _create_events()
    create_flow_tables()
    _create_inbox()
    _create_instances()
    _create_lanes()
    _create_questions()
    _create_remembered()
    _create_run_files()
    _create_runs()
    _create_saved_keys()
    _create_schedules()
    _create_stream()
    _create_writers()
    _fill()


def _fill() -> None:
    connection = op.get_bind()
    if connection.scalar(sa.text("SELECT COUNT(*) FROM stream")):
        return
    lane = (
        "INSERT INTO lanes (name, max_concurrent, is_paused, revision, is_set_by_hand)"
        " VALUES (:name, :limit, 0, 0, 0)"
    )
    for name, limit in (("main", 3), ("cron", 1), ("subagent", 1)):
        connection.execute(sa.text(lane), {"name": name, "limit": limit})
    connection.execute(
        sa.text(
            "INSERT INTO stream (id, cluster_id, epoch, seq, pruned_seq) "
            "VALUES (1, :cluster, 1, 0, 0)"
        ),
        {"cluster": str(uuid.uuid4())},
    )


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", SEQ, autoincrement=False, nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=True),
        sa.Column("run_seq", sa.Integer(), nullable=True),
        sa.Column("key", sa.String(length=255), nullable=True),
        sa.Column("lane", sa.String(length=255), nullable=True),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("payload", DOCUMENT, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
        sa.UniqueConstraint("run_id", "run_seq", name="uq_events_run_id_run_seq"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_inbox() -> None:
    op.create_table(
        "inbox",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("call_id", sa.String(length=64), nullable=True),
        sa.Column("payload", DOCUMENT, nullable=False),
        sa.Column("by", sa.String(length=255), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("consumed_by", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_inbox"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_instances() -> None:
    op.create_table(
        "instances",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("lease_expires_at", sa.BigInteger(), nullable=False),
        sa.Column("is_dead", sa.SmallInteger(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("life_lock", sa.String(length=128), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_instances"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_lanes() -> None:
    op.create_table(
        "lanes",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("max_concurrent", sa.Integer(), nullable=False),
        sa.Column("max_queued", sa.Integer(), nullable=True),
        sa.Column("is_paused", sa.SmallInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("is_set_by_hand", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_lanes"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_questions() -> None:
    op.create_table(
        "questions",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("call_id", sa.String(length=64), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("question", DOCUMENT, nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("answer_by", sa.BigInteger(), nullable=False),
        sa.Column("answer_schema", DOCUMENT, nullable=True),
        sa.Column("default_answer", DOCUMENT, nullable=True),
        sa.Column("answer", DOCUMENT, nullable=True),
        sa.Column("answered_by", sa.String(length=255), nullable=True),
        sa.Column("answered_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "call_id", name="pk_questions"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_remembered() -> None:
    op.create_table(
        "remembered",
        sa.Column("idempotency_key", sa.String(length=255), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("idempotency_key", name="pk_remembered"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_remembered_at", "remembered", ["at"], if_not_exists=True)


def _create_run_files() -> None:
    op.create_table(
        "run_files",
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("data_id", sa.String(length=36), nullable=False),
        sa.Column("path", sa.String(length=255), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("part", sa.String(length=255), nullable=False),
        sa.Column("byte_count", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", "data_id", "path", name="pk_run_files"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_run_files_run_id", "run_files", ["run_id"], if_not_exists=True)


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("seq", SEQ, autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("lane", sa.String(length=255), nullable=False),
        sa.Column("job", sa.String(length=255), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("recovery", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("head_key", sa.String(length=255), nullable=True),
        sa.Column("waiting_key", sa.String(length=255), nullable=True),
        sa.Column("queue_rank", sa.SmallInteger(), nullable=True),
        sa.Column("ready_seq", sa.BigInteger(), nullable=True),
        sa.Column("slot", sa.String(length=255), nullable=True),
        sa.Column("instance_id", sa.String(length=36), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("death_count", sa.Integer(), nullable=False),
        sa.Column("is_interactive", sa.SmallInteger(), nullable=False),
        sa.Column("unread_count", sa.Integer(), nullable=False),
        sa.Column("queued_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("queue_by", sa.BigInteger(), nullable=True),
        sa.Column("timeout_us", sa.BigInteger(), nullable=True),
        sa.Column("run_by", sa.BigInteger(), nullable=True),
        sa.Column("wake_at", sa.BigInteger(), nullable=True),
        sa.Column("cancel_by", sa.BigInteger(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("run_seq", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("continued_from", sa.String(length=36), nullable=True),
        sa.Column("parent_id", sa.String(length=36), nullable=True),
        sa.Column("child_of", sa.String(length=36), nullable=True),
        sa.Column("is_parent", sa.SmallInteger(), nullable=False),
        sa.Column("children_by", sa.BigInteger(), nullable=True),
        sa.Column("existing", sa.String(length=16), nullable=True),
        sa.Column("deletes_files", sa.SmallInteger(), nullable=True),
        sa.Column("traceparent", sa.String(length=55), nullable=True),
        sa.Column("params", DOCUMENT, nullable=False),
        sa.Column("progress", DOCUMENT, nullable=True),
        sa.Column("checkpoint", DOCUMENT, nullable=True),
        sa.Column("result", DOCUMENT, nullable=True),
        sa.Column("error", DOCUMENT, nullable=True),
        sa.Column("cancel", DOCUMENT, nullable=True),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = "
            "(status IN ('canceled', 'failed', 'rejected', 'succeeded', 'timed_out'))",
            name="ck_runs_ended_iff_terminal",
        ),
        sa.CheckConstraint(
            "instance_id IS NULL OR token <> ''", name="ck_runs_a_holder_has_a_token"
        ),
        sa.CheckConstraint(
            "head_key IS NULL OR waiting_key IS NULL", name="ck_runs_head_or_waiting"
        ),
        sa.CheckConstraint(
            "slot IS NULL OR head_key IS NOT NULL", name="ck_runs_only_a_head_holds_a_slot"
        ),
        sa.PrimaryKeyConstraint("seq", name="pk_runs"),
        sa.UniqueConstraint("id", name="uq_runs_id"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_runs_child_of_seq",
        "runs",
        ["child_of", "seq"],
        if_not_exists=True,
        sqlite_where=sa.text("child_of IS NOT NULL"),
        postgresql_where=sa.text("child_of IS NOT NULL"),
    )
    op.create_index(
        "ix_runs_due_at",
        "runs",
        ["due_at"],
        if_not_exists=True,
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    for column in ("key", "status", "job", "lane"):
        op.create_index(f"ix_runs_{column}_seq", "runs", [column, "seq"], if_not_exists=True)
    op.create_index(
        "uq_runs_head_key",
        "runs",
        ["head_key"],
        unique=True,
        if_not_exists=True,
        sqlite_where=sa.text("head_key IS NOT NULL"),
        postgresql_where=sa.text("head_key IS NOT NULL"),
    )
    op.create_index(
        "ix_runs_queue",
        "runs",
        ["lane", "queue_rank", "ready_seq"],
        if_not_exists=True,
        sqlite_where=sa.text("queue_rank IS NOT NULL"),
        postgresql_where=sa.text("queue_rank IS NOT NULL"),
    )
    op.create_index(
        "ix_runs_slot",
        "runs",
        ["slot"],
        if_not_exists=True,
        sqlite_where=sa.text("slot IS NOT NULL"),
        postgresql_where=sa.text("slot IS NOT NULL"),
    )
    op.create_index(
        "ix_runs_waiting_key_seq",
        "runs",
        ["waiting_key", "seq"],
        if_not_exists=True,
        sqlite_where=sa.text("waiting_key IS NOT NULL"),
        postgresql_where=sa.text("waiting_key IS NOT NULL"),
    )


def _create_saved_keys() -> None:
    op.create_table(
        "saved_keys",
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("job", sa.String(length=255), nullable=False),
        sa.Column("params", DOCUMENT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_saved_keys"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("expression", sa.String(length=255), nullable=False),
        sa.Column("time_zone", sa.String(length=255), nullable=False),
        sa.Column("last_slot_at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("is_paused", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_schedules"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_stream() -> None:
    op.create_table(
        "stream",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("pruned_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_stream"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_writers() -> None:
    op.create_table(
        "writers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("batch", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_writers"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
