"""Bugs in what is decided."""

from typing import Final

from tests.mutants.mutant import Mutant

CORE: Final = (
    Mutant(
        name="a message to a run that does not listen is accepted",
        file="core/run/window.py",
        edits=(("if window == Window.STREAMING or", "if window != Window.COMPACTING or"),),
        test_file="tests/contract/test_windows.py",
        test="test_the_window_of_a_run_decides_whether_a_message_is_accepted",
    ),
    Mutant(
        name="a message to a queued run is accepted",
        file="core/command/run/inbox.py",
        edits=(("run.status is RunStatus.QUEUED and self.delivery", "not run and self.delivery"),),
        test_file="tests/contract/test_messages.py",
        test="test_a_queued_run_takes_only_messages_that_wait",
    ),
    Mutant(
        name="unread messages are not reported",
        file="core/batch_state.py",
        edits=(("if messages := self.unread_messages(run):", "if messages := []:"),),
        test_file="tests/contract/test_messages.py",
        test="test_unread_messages_are_reported_whatever_way_a_run_ends",
    ),
    Mutant(
        name="the unread messages of a replaced run end with it",
        file="core/command/run/submit.py",
        edits=(("if self.job != FLOW_JOB:  # A flow task", "if not self.job:  # A flow task"),),
        test_file="tests/contract/test_messages.py",
        test="test_unread_messages_of_replaced_runs_go_to_the_run_that_replaces_them",
    ),
    Mutant(
        name="a claim that was taken over may still speak",
        file="core/batch_state.py",
        edits=(("run.token == NO_TOKEN or run.token != claim.token", "run.token == NO_TOKEN"),),
        test_file="tests/contract/test_fence.py",
        test="test_an_older_claim_is_refused_and_changes_nothing",
    ),
    Mutant(
        name="a claim takes no notice of the lane's limit",
        file="core/command/run/claim.py",
        edits=(
            (
                "len(claimed) < self.count and queue.held_count + kept_count < queue.lane.capacity",
                "len(claimed) < self.count",
            ),
        ),
        test_file="tests/contract/test_queue_order.py",
        test="test_who_wants_a_slot_again_waits_for_a_free_one",
    ),
    Mutant(
        name="the end of a run that was cancelling hands its key to nobody",
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
        test="test_a_cancel_is_forced_only_after_its_deadline",
    ),
    Mutant(
        name="the cancel of a parked run waits for an executor that is not there",
        file="core/command/run/cancel.py",
        edits=(("if moved.token == NO_TOKEN:", "if moved.is_parked:"),),
        test_file="tests/contract/test_cancel.py",
        test="test_a_run_that_nobody_holds_is_canceled_at_once",
    ),
    Mutant(
        name="a cancel frees the slot while the job still unwinds",
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
        test="test_a_running_run_is_cancelling_at_once_with_a_deadline",
    ),
    Mutant(
        name="deaths are not counted, so nothing is ever poison",
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
        name="a graceful stop resets the count",
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
        name="a graceful stop forgives deaths",
        file="core/command/admin/instance.py",
        edits=(("            death_count=run.death_count,\n", ""),),
        test_file="tests/contract/test_recovery.py",
        test="test_a_graceful_stop_forgives_no_death",
    ),
    Mutant(
        name="a timeout is not in the stream",
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
        test="test_a_run_that_waited_too_long_is_timed_out",
    ),
    Mutant(
        name="an idempotency key counts only while its run is active",
        file="core/command/run/submit.py",
        edits=(
            (
                "            if earlier is not None:\n",
                "            if earlier is not None and world.head_of(self.key) is not None:\n",
            ),
        ),
        test_file="tests/contract/test_idempotency.py",
        test="test_a_repeat_gives_the_same_run_when_that_has_long_ended",
    ),
    Mutant(
        name="a slot of a schedule fires again",
        file="core/command/admin/fire_schedule.py",
        edits=(("last_fire_at=due.fire_at, rev", "last_fire_at=Instant(due.fire_at - 1), rev"),),
        test_file="tests/contract/test_schedules.py",
        test="test_in_one_batch_a_slot_is_fired_once",
    ),
    Mutant(
        name="abort promotes the next",
        file="core/command/run/cancel.py",
        edits=(
            (
                "for run in reversed(list(world.active_of(self.key)))",
                "for run in list(world.active_of(self.key))[:1]",
            ),
        ),
        test_file="tests/contract/test_stop_key.py",
        test="test_the_runs_behind_the_active_one_are_canceled_before_it_ends",
    ),
    Mutant(
        name="a question is open only while its run is executed",
        file="core/command/run/interrupt.py",
        edits=(
            (
                "    is_asked = question.generation != WITHDRAWN and question.answer is None\n",
                (
                    "    is_asked = run.instance_id is not None and question.answer is None\n"
                    "    is_asked = is_asked and question.generation == run.generation\n"
                ),
            ),
        ),
        test_file="tests/contract/test_open_questions.py",
        test="test_an_answer_between_two_executions_is_taken_and_received_once",
    ),
    Mutant(
        name="a failed attempt leaves its questions open",
        file="core/command/run/wait.py",
        edits=(("        run = withdraw_questions(world, run)\n", ""),),
        test_file="tests/contract/test_open_questions.py",
        test="test_a_failed_attempt_withdraws_its_questions_and_answers_to_them_are_stale",
    ),
    Mutant(
        name="answers that no job has heard are not reported",
        file="core/batch_state.py",
        edits=(("if answers := self.unread_answers(run):", "if answers := []:"),),
        test_file="tests/contract/test_messages.py",
        test="test_answers_that_no_job_has_heard_are_reported_whatever_way_a_run_ends",
    ),
    Mutant(
        name="a question that is not asked again can still be answered",
        file="core/command/run/interrupt.py",
        edits=(
            (
                "            _put(world, question._replace(generation=WITHDRAWN))\n",
                "            _put(world, question)\n",
            ),
        ),
        test_file="tests/contract/test_open_questions.py",
        test="test_an_answer_to_a_question_that_is_not_asked_again_is_refused_as_stale",
    ),
)
