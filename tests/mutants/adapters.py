"""Bugs in the SQL adapter: loading, locking, writing and connecting."""

from typing import Final

from tests.mutants.mutant import Mutant

ADAPTERS: Final = (
    Mutant(
        name="unread messages are reported only if the same batch posted them",
        file="adapters/sql/write/load.py",
        edits=(("    _add_unread_needs(needed, batch)\n", ""),),
        test_file="tests/contract/test_messages.py",
        test="test_unread_messages_are_reported_whatever_ends_the_run",
    ),
    Mutant(
        name="a row is written although it has changed since it was read",
        file="adapters/sql/write/write_changes.py",
        edits=(
            (
                'RUN_GUARDS: Final = ("seq", "status", "token", "revision")',
                'RUN_GUARDS: Final = ("seq",)',
            ),
            (
                "(before.seq, _PLAIN_VALUES[before.status], before.token, before.revision)",
                "(before.seq,)",
            ),
        ),
        test_file="tests/contract/test_guards.py",
        test="test_row_changed_since_it_was_read_is_not_overwritten",
    ),
    Mutant(
        name="SQLite takes the write lock at the first write, not at the begin",
        file="adapters/sql/write/links/sqlite_link.py",
        edits=(('"BEGIN IMMEDIATE"', '"BEGIN"'),),
        test_file="tests/contract/test_guards.py",
        test="test_no_other_program_writes_between_begin_and_commit",
    ),
    Mutant(
        name="the slot of a cancelling run is not counted",
        file="adapters/sql/write/load.py",
        edits=(
            (
                "where(runs.c.slot == lanes.c.name).scalar_subquery(),",
                (
                    "where(runs.c.slot == lanes.c.name, "
                    "runs.c.status != sa.literal('cancelling')).scalar_subquery(),"
                ),
            ),
        ),
        test_file="tests/contract/test_queue_order.py",
        test="test_cancelling_run_keeps_its_slot_until_it_ends",
    ),
    Mutant(
        name="lanes are locked in random order",
        file="adapters/sql/write/load.py",
        edits=(
            (
                "    .order_by(lanes.c.name)\n    .with_for_update()",
                "    .order_by(sa.func.random())\n    .with_for_update()",
            ),
        ),
        test_file="tests/contract/test_guards.py",
        test="test_batches_that_lock_the_same_lanes_do_not_deadlock",
        backend="postgres",
    ),
    Mutant(
        name="a standby is accepted as the primary",
        file="adapters/sql/connect/postgres.py",
        edits=(
            (
                '        if is_standby:\n            return "is a standby"\n',
                "        return None\n",
            ),
        ),
        test_file="tests/sql/test_connect.py",
        test="test_read_only_node_counts_as_failed",
        backend="postgres",
    ),
    Mutant(
        name="the counter of the event stream is read without a lock",
        file="adapters/sql/write/load.py",
        edits=(
            (
                '.where(stream.c.id == sa.literal_column("1"))\n        .with_for_update()\n',
                '.where(stream.c.id == sa.literal_column("1"))\n',
            ),
        ),
        test_file="tests/contract/test_guards.py",
        test="test_counter_is_locked_from_the_decision_to_the_commit",
        backend="postgres",
    ),
    Mutant(
        name="the queue of a key is ordered by the clock",
        file="adapters/sql/write/load.py",
        edits=(
            (
                '    .where(runs.c.waiting_key == text_param("key"))\n    .order_by(runs.c.seq)\n',
                (
                    '    .where(runs.c.waiting_key == text_param("key"))\n'
                    "    .order_by(runs.c.queued_at, runs.c.id)\n"
                ),
            ),
        ),
        test_file="tests/contract/test_queue_order.py",
        test="test_order_depends_neither_on_the_clock_nor_on_the_ids",
    ),
    Mutant(
        name="another program's table with the name of a headway table is accepted",
        file="adapters/sql/ownership.py",
        edits=(
            (
                "not _may_be_own(name, _to_current_names(name, names))",
                "False",
            ),
        ),
        test_file="tests/contract/test_foreign_tables.py",
        test="test_foreign_table_with_the_name_of_a_headway_table_is_refused_and_unchanged",
        backend="postgres",
    ),
    Mutant(
        name="a commit to a deleted file is reported as a success",
        file="adapters/sql/connect/database_file.py",
        edits=(
            (
                "        self.check()\n        return self.check_log()",
                "        return self.check_log()",
            ),
        ),
        test_file="tests/sql/test_lost_file.py",
        test="test_deletion_during_a_commit_is_an_unknown_outcome",
    ),
    Mutant(
        name="an accepted primary does not get an epoch above all that were seen",
        file="adapters/sql/connect/addresses.py",
        edits=(("epoch = max(epoch, stream.epoch + 1)", "epoch = stream.epoch"),),
        test_file="tests/sql/test_accept_primary.py",
        test="test_accepted_primary_is_used_by_running_processes_after_two_failovers",
        backend="postgres",
    ),
    Mutant(
        name="a pooler in transaction mode is not detected",
        file="adapters/sql/connect/pooler.py",
        edits=(
            ("in sessions:\n            return True", "in sessions:\n            break"),
            (
                "if len(sessions) > 1:\n            return True",
                "if len(sessions) > 1:\n            break",
            ),
        ),
        test_file="tests/sql/test_pgbouncer.py",
        test="test_transaction_mode_is_detected_while_other_clients_use_the_pooler",
        backend="postgres",
    ),
)
