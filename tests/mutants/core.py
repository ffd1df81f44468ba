"""Bugs in the decisions of commands."""

from typing import Final

from tests.mutants.mutant import Mutant

CORE: Final = (
    Mutant(
        name="a message to a run that reads no messages is accepted",
        file="core/run/window.py",
        edits=(("if window == Window.STREAMING or", "if window != Window.COMPACTING or"),),
        test_file="tests/contract/test_message_windows.py",
        test="test_window_of_a_run_decides_whether_a_message_is_accepted",
    ),
    Mutant(
        name="a message to a queued run is accepted",
        file="core/command/run/inbox.py",
        edits=(("run.status is RunStatus.QUEUED and self.delivery", "not run and self.delivery"),),
        test_file="tests/contract/test_messages.py",
        test="test_queued_run_accepts_only_messages_that_can_wait_for_its_start",
    ),
    Mutant(
        name="unread messages are not reported",
        file="core/batch_state.py",
        edits=(("if messages := self.unread_messages(run):", "if messages := []:"),),
        test_file="tests/contract/test_messages.py",
        test="test_unread_messages_are_reported_whatever_ends_the_run",
    ),
    Mutant(
        name="the unread messages of a replaced run are lost",
        file="core/command/run/submit.py",
        edits=(("if self.job != FLOW_JOB:  # A flow task", "if not self.job:  # A flow task"),),
        test_file="tests/contract/test_messages.py",
        test="test_unread_messages_of_replaced_runs_go_to_the_new_run",
    ),
    Mutant(
        name="a claim that another instance took over is still accepted",
        file="core/batch_state.py",
        edits=(("run.token == NO_TOKEN or run.token != claim.token", "run.token == NO_TOKEN"),),
        test_file="tests/contract/test_fence.py",
        test="test_older_claim_is_refused_and_changes_nothing",
    ),
    Mutant(
        name="a claim ignores the capacity of the lane",
        file="core/command/run/claim.py",
        edits=(
            (
                " and queue.held_count + reserved_count < capacity",
                "",
            ),
        ),
        test_file="tests/contract/test_queue_order.py",
        test="test_run_that_requests_a_slot_waits_for_a_free_one",
    ),
    Mutant(
        name="the end of a cancelling run does not pass its key to the next run",
        file="core/batch_state.py",
        edits=(
            (
                "        if waiting:\n            heir =",
                (
                    "        if waiting and run.status is not RunStatus.CANCELLING:\n"
                    "            heir ="
                ),
            ),
        ),
        test_file="tests/contract/test_cancel.py",
        test="test_cancel_is_forced_only_after_its_deadline",
    ),
    Mutant(
        name="a run that no instance holds is not canceled at once",
        file="core/command/run/cancel.py",
        edits=(("if moved.token == NO_TOKEN:", "if moved.is_parked:"),),
        test_file="tests/contract/test_cancel.py",
        test="test_run_without_a_holder_is_canceled_at_once",
    ),
    Mutant(
        name="a cancel frees the slot while the job is still unwinding",
        file="core/command/run/cancel.py",
        edits=(
            (
                "        queue_rank=None,\n        ready_seq=None,\n        window=0,\n",
                (
                    "        queue_rank=None,\n        ready_seq=None,\n        window=0,\n"
                    "        slot=None,\n"
                ),
            ),
        ),
        test_file="tests/contract/test_cancel.py",
        test="test_cancel_makes_a_running_run_cancelling_at_once_with_a_deadline",
    ),
    Mutant(
        name="deaths are not counted, so no run is ever poison",
        file="core/command/admin/instance.py",
        edits=(
            (
                "            death_count=death_count,\n            queue_rank",
                "            queue_rank",
            ),
        ),
        test_file="tests/contract/test_recovery.py",
        test="test_three_deaths_without_progress_are_poison",
    ),
    Mutant(
        name="a graceful stop resets the count of graceful stops",
        file="core/command/admin/instance.py",
        edits=(
            (
                "            stop_count=stop_count,\n        )\n        payload",
                "        )\n        payload",
            ),
        ),
        test_file="tests/contract/test_recovery.py",
        test="test_twenty_graceful_stops_without_progress_are_poison",
    ),
    Mutant(
        name="a graceful stop resets the count of deaths",
        file="core/command/admin/instance.py",
        edits=(("            death_count=run.death_count,\n", ""),),
        test_file="tests/contract/test_recovery.py",
        test="test_graceful_stop_does_not_reset_the_count_of_deaths",
    ),
    Mutant(
        name="a timeout appends no event",
        file="core/batch_state.py",
        edits=(
            (
                '        changes["run_seq"] = self._append(run, run_seq,',
                (
                    "        if trigger is not Trigger.EXPIRE:\n"
                    '            changes["run_seq"] = self._append(run, run_seq,'
                ),
            ),
        ),
        test_file="tests/contract/test_timeouts.py",
        test="test_run_that_waited_too_long_is_timed_out",
    ),
    Mutant(
        name="an idempotency key is ignored once its run has ended",
        file="core/command/run/submit.py",
        edits=(
            (
                "            if earlier is not None:\n",
                "            if earlier is not None and batch.head_run(self.key) is not None:\n",
            ),
        ),
        test_file="tests/contract/test_idempotency.py",
        test="test_repeated_request_returns_the_same_run_long_after_it_has_ended",
    ),
    Mutant(
        name="a schedule fires twice for the same time",
        file="core/command/admin/schedules.py",
        edits=(("last_fire_at=due.fire_at, rev", "last_fire_at=Instant(due.fire_at - 1), rev"),),
        test_file="tests/contract/test_schedules.py",
        test="test_schedule_fires_once_if_one_batch_fires_it_twice",
    ),
    Mutant(
        name="stopping a key cancels only its first run, so the next one starts",
        file="core/command/run/cancel.py",
        edits=(
            (
                "for run in reversed(list(batch.active_runs(self.key)))",
                "for run in list(batch.active_runs(self.key))[:1]",
            ),
        ),
        test_file="tests/contract/test_stop_key.py",
        test="test_runs_behind_the_active_one_are_canceled_before_it_ends",
    ),
    Mutant(
        name="an interrupt is open only while its run is executed",
        file="core/command/run/interrupt.py",
        edits=(
            (
                "    is_asked = interrupt.generation != WITHDRAWN_GENERATION and",
                (
                    "    is_asked = run.instance_id is not None and"
                    " interrupt.generation == run.generation and"
                ),
            ),
        ),
        test_file="tests/contract/test_interrupt_recovery.py",
        test="test_answer_between_two_executions_is_accepted_and_received_once",
    ),
    Mutant(
        name="a failed attempt leaves its interrupts open",
        file="core/command/run/wait.py",
        edits=(("        run = withdraw_interrupts(batch, run)\n", ""),),
        test_file="tests/contract/test_interrupt_recovery.py",
        test="test_failed_attempt_withdraws_its_questions_and_answers_to_them_are_stale",
    ),
    Mutant(
        name="answers that no job has received are not reported",
        file="core/batch_state.py",
        edits=(("if answers := self.unread_answers(run):", "if answers := []:"),),
        test_file="tests/contract/test_messages.py",
        test="test_answers_that_no_job_received_are_reported_whatever_ends_the_run",
    ),
    Mutant(
        name="an interrupt that is not asked again can still be answered",
        file="core/command/run/interrupt.py",
        edits=(
            (
                "            _save(batch, interrupt._replace(generation=WITHDRAWN_GENERATION))\n",
                "            _save(batch, interrupt)\n",
            ),
        ),
        test_file="tests/contract/test_interrupt_recovery.py",
        test="test_answer_to_a_question_that_is_not_asked_again_is_refused_as_stale",
    ),
)
