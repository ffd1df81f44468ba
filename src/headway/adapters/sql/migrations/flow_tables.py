"""The tables of flows and their tasks, as revision 0001 creates them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

DOCUMENT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def create_flow_tables() -> None:
    _create_flow_runs()
    _create_flow_shared()
    _create_flow_versions()
    _create_flows()
    _create_node_runs()
    _create_workers()


def _create_flow_runs() -> None:
    op.create_table(
        "flow_runs",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("flow", sa.String(length=255), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("standing", DOCUMENT, nullable=True),
        sa.Column("inner_shared", DOCUMENT, nullable=True),
        sa.Column("frozen_input", DOCUMENT, nullable=True),
        sa.Column("waits_for", sa.String(length=16), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("rerun_of", sa.String(length=36), nullable=True),
        sa.PrimaryKeyConstraint("run_id", name="pk_flow_runs"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_flow_runs_updated_at", "flow_runs", ["updated_at"], if_not_exists=True)
    op.create_index(
        "ix_flow_runs_waits_for_updated_at",
        "flow_runs",
        ["waits_for", "updated_at"],
        if_not_exists=True,
        sqlite_where=sa.text("waits_for IS NOT NULL"),
        postgresql_where=sa.text("waits_for IS NOT NULL"),
    )


def _create_flow_shared() -> None:
    op.create_table(
        "flow_shared",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=520), nullable=False),
        sa.Column("value", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name", name="pk_flow_shared"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_flow_versions() -> None:
    op.create_table(
        "flow_versions",
        sa.Column("flow", sa.String(length=255), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("definition", DOCUMENT, nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("flow", "version", name="pk_flow_versions"),
        sa.UniqueConstraint("id", name="uq_flow_versions_id"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_flows() -> None:
    op.create_table(
        "flows",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("latest", sa.Integer(), nullable=False),
        sa.Column("published", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_flows"),
        sa.UniqueConstraint("id", name="uq_flows_id"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_node_runs() -> None:
    op.create_table(
        "node_runs",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("node_key", sa.String(length=255), nullable=False),
        sa.Column("path", DOCUMENT, nullable=False),
        sa.Column("branch", sa.Integer(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("prep", DOCUMENT, nullable=False),
        sa.Column("input", DOCUMENT, nullable=False),
        sa.Column("output", DOCUMENT, nullable=False),
        sa.Column("error", DOCUMENT, nullable=False),
        sa.Column("action", sa.String(length=255), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.String(length=255), nullable=True),
        sa.Column("worker_url", DOCUMENT, nullable=True),
        sa.Column("is_settled", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_node_runs"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _create_workers() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("url", sa.String(length=500), nullable=False),
        sa.Column("services", DOCUMENT, nullable=False),
        sa.Column("load", sa.Integer(), nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
        if_not_exists=True,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_workers_heartbeat_at", "workers", ["heartbeat_at"], if_not_exists=True)
