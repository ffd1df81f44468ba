"""Bugs between the decision and the disk."""

from typing import Final

from tests.mutants.mutant import Mutant

ADAPTERS: Final = (
    Mutant(
        name="unread messages are reported only if they came with the end",
        file="adapters/sql/write/load.py",
        edits=(("    _need_unread(needs, world)\n", ""),),
        test_file="tests/contract/test_messages.py",
        test="test_unread_messages_are_reported_whatever_way_a_run_ends",
    ),
    Mutant(
        name="a row is written whatever has become of it",
        file="adapters/sql/write/write_changes.py",
        edits=(
            (
                'RUN_GUARDS: Final = ("seq", "status", "token", "revision")',
                'RUN_GUARDS: Final = ("seq",)',
            ),
            (
                "(before.seq, _PLAIN[before.status], before.token, before.revision)",
                "(before.seq,)",
            ),
        ),
        test_file="tests/contract/test_guards.py",
        test="test_a_row_that_has_changed_is_not_written",
    ),
    Mutant(
        name="SQLite's write lock comes with the first write",
        file="adapters/sql/write/links/sqlite_link.py",
        edits=(('"BEGIN IMMEDIATE"', '"BEGIN"'),),
        test_file="tests/contract/test_guards.py",
        test="test_nobody_else_writes_from_begin_to_commit",
    ),
    Mutant(
        name="a cancelling run's slot is not counted",
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
        test="test_a_cancelling_run_keeps_its_slot_until_it_ends",
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
        test="test_batches_that_lock_the_same_lanes_never_wait_for_each_other_in_a_circle",
        backend="postgres",
    ),
    Mutant(
        name="a standby is taken for a primary",
        file="adapters/sql/connect/postgres.py",
        edits=(
            ('        if standby:\n            return "is a standby"\n', "        return None\n"),
        ),
        test_file="tests/sql/test_connect.py",
        test="test_a_node_that_takes_no_writes_counts_as_failed",
        backend="postgres",
    ),
    Mutant(
        name="the counter of the stream is read without a lock",
        file="adapters/sql/write/load.py",
        edits=(
            (
                '.where(stream.c.id == sa.literal_column("1"))\n        .with_for_update()\n',
                '.where(stream.c.id == sa.literal_column("1"))\n',
            ),
        ),
        test_file="tests/contract/test_guards.py",
        test="test_the_counter_is_locked_from_the_decision_to_the_commit",
        backend="postgres",
    ),
    Mutant(
        name="a key's line is in the order of the clock",
        file="adapters/sql/write/load.py",
        edits=(
            (
                '    .where(runs.c.waiting_key == text("key"))\n    .order_by(runs.c.seq)\n',
                (
                    '    .where(runs.c.waiting_key == text("key"))\n'
                    "    .order_by(runs.c.queued_at, runs.c.id)\n"
                ),
            ),
        ),
        test_file="tests/contract/test_queue_order.py",
        test="test_neither_the_clock_nor_the_ids_decide_who_is_next",
    ),
    Mutant(
        name="another program's table of headway's name is adopted",
        file="adapters/sql/ownership.py",
        edits=(("not FIRST[name] <= set(found) <= OWN[name]", "False"),),
        test_file="tests/contract/test_foreign_tables.py",
        test="test_foreign_table_with_a_name_of_ours_is_refused_and_unchanged",
        backend="postgres",
    ),
    Mutant(
        name="a commit to a deleted file is a success",
        file="adapters/sql/write/links/sqlite_link.py",
        edits=(
            (
                "            self._file.check()\n            log_byte_count",
                "            log_byte_count",
            ),
        ),
        test_file="tests/sql/test_lost_file.py",
        test="test_deletion_during_a_commit_is_an_unknown_outcome",
    ),
    Mutant(
        name="an accepted primary gets the next epoch, which others have seen",
        file="adapters/sql/connect/addresses.py",
        edits=(("epoch = max(epoch, found.epoch + 1)", "epoch = found.epoch"),),
        test_file="tests/sql/test_accept_primary.py",
        test="test_accepted_primary_is_used_by_running_processes_after_two_failovers",
        backend="postgres",
    ),
    Mutant(
        name="a pooler that shares sessions is taken for one that does not",
        file="adapters/sql/connect/pooler.py",
        edits=(
            ("in sessions:\n            return True", "in sessions:\n            break"),
            (
                "if len(sessions) > 1:\n            return True",
                "if len(sessions) > 1:\n            break",
            ),
        ),
        test_file="tests/sql/test_pgbouncer.py",
        test="test_transaction_mode_is_noticed_while_others_use_the_pooler",
        backend="postgres",
    ),
)
