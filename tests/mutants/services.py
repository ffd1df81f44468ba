"""Bugs in the engine, its loops and the job context."""

from typing import Final

from tests.mutants.mutant import Mutant

SERVICES: Final = (
    Mutant(
        name="an engine that lost its lease continues its runs",
        file="services/engine/engine.py",
        edits=(
            (
                (
                    "        for execution in list(self._executing.values()):\n"
                    "            execution.end(Ending.LOST)\n"
                ),
                "",
            ),
        ),
        test_file="tests/engine/test_stop.py",
        test="test_an_engine_that_cannot_renew_its_lease_stops_its_runs",
    ),
    Mutant(
        name="a job that raises KeyboardInterrupt ends the server",
        file="services/job_errors.py",
        edits=(("        return not _is_from_sigint(error)", "        return False"),),
        test_file="tests/engine/test_poison.py",
        test="test_a_job_that_raises_an_exit_exception_fails_only_its_run",
    ),
    Mutant(
        name="a forked child that returns from its job acts as a second engine",
        file="process/fork_guard.py",
        edits=(("        self.count += 1\n", "        return\n"),),
        test_file="tests/engine/test_poison.py",
        test="test_a_forked_child_exits_when_it_returns_from_the_job",
    ),
    Mutant(
        name="the claimer does not poll without a hint",
        file="services/engine/claimer.py",
        edits=(
            (
                "            await wait_until_set(self._wake, POLL_S)",
                "            await self._wake.wait()",
            ),
        ),
        test_file="tests/engine/test_hints.py",
        test="test_polling_starts_and_ends_runs_without_any_hint",
    ),
    Mutant(
        name="a run regains its slot before its last overlapping wait has ended",
        file="services/context/slot_switch.py",
        edits=(("elif not is_waiting and not self._has_slot:", "elif not self._has_slot:"),),
        test_file="tests/engine/test_slots.py",
        test="test_overlapping_waits_release_the_slot_once_and_regain_it_after_the_last",
    ),
    Mutant(
        name="a waiting job holds its slot",
        file="services/context/slot_switch.py",
        edits=(("if is_waiting and self._has_slot:", "if is_waiting and not self._has_slot:"),),
        test_file="tests/engine/test_waiting.py",
        test="test_a_sleeping_run_releases_its_slot",
    ),
    Mutant(
        name="the sweep does not time out queued runs",
        file="services/engine/sweep.py",
        edits=(
            (
                "if run.status is RunStatus.RUNNING and (\n        run.run_deadline_at",
                "if run.status is not RunStatus.CANCELLING and (\n        run.run_deadline_at",
            ),
        ),
        test_file="tests/engine/test_order.py",
        test="test_a_run_that_waits_too_long_in_the_queue_is_timed_out",
    ),
    Mutant(
        name="a waiter for a run of another process is notified by hints alone",
        file="services/submit/run_watcher.py",
        edits=(("            self._notify_all(run_ids, runs)\n", ""),),
        test_file="tests/engine/test_run_watcher.py",
        test="test_many_waiters_share_one_poll_and_each_wakes_for_its_own_run",
    ),
    Mutant(
        name="the end of a run during a read is missed",
        file="services/submit/run_watcher.py",
        edits=(
            ("                waiter.ended.clear()  # Before", "                # Before"),
            (
                "                await waiter.ended.wait()",
                "                waiter.ended.clear()\n                await waiter.ended.wait()",
            ),
        ),
        test_file="tests/engine/test_run_watcher.py",
        test="test_a_change_during_a_read_is_not_missed",
    ),
    Mutant(
        name="a change during a read of a handle is missed",
        file="services/submit/run_watcher.py",
        edits=(("        if self._notified_seq > run_seq:\n", "        if False:\n"),),
        test_file="tests/engine/test_run_watcher.py",
        test="test_a_change_during_a_read_is_not_missed",
    ),
    Mutant(
        name="the sweep processes only one page of due runs per round",
        file="services/engine/sweep.py",
        edits=(
            ("        if len(page.due) < BATCH_SIZE or page.due <= moved:", "        if page.due:"),
        ),
        test_file="tests/contract/test_timeouts.py",
        test="test_sweep_continues_while_more_is_due",
    ),
    Mutant(
        name="runs with an open interrupt are polled no more often than others",
        file="services/engine/engine.py",
        edits=(("if execution.open_interrupt_count]", "if False]"),),
        test_file="tests/engine/test_decision_polls.py",
        test="test_only_runs_with_an_open_interrupt_are_polled_often",
    ),
    Mutant(
        name="a job that returns after its cancel was delivered succeeds",
        file="services/context/execution.py",
        edits=(
            (
                "        return ending is Ending.SHUTDOWN and not is_interrupted\n",
                "        return ending is Ending.CANCELLED or not is_interrupted\n",
            ),
        ),
        test_file="tests/engine/test_early_return.py",
        test="test_a_job_that_returns_after_its_cancel_was_delivered_is_canceled",
    ),
    Mutant(
        name="a job that returns because its process stops succeeds",
        file="services/context/execution.py",
        edits=(
            (
                "        return ending is Ending.SHUTDOWN and not is_interrupted\n",
                "        return ending is Ending.SHUTDOWN\n",
            ),
        ),
        test_file="tests/engine/test_early_return.py",
        test="test_a_job_that_returns_because_its_process_stops_is_executed_again",
    ),
    Mutant(
        name="a shutdown closes the interrupt",
        file="services/context/interrupts.py",
        edits=(
            (
                "            if self._execution.ending is None:\n",
                "            if self._execution.ending is not Ending.LOST:\n",
            ),
        ),
        test_file="tests/engine/test_open_interrupts.py",
        test="test_a_stop_leaves_the_interrupt_open_for_the_next_execution",
    ),
    Mutant(
        name="an execution after a restart asks under a new call id",
        file="services/context/interrupts.py",
        edits=(("        if not has_call_id:\n", "        if False:\n"),),
        test_file="tests/engine/test_open_interrupts.py",
        test="test_a_stop_leaves_the_interrupt_open_for_the_next_execution",
    ),
)
