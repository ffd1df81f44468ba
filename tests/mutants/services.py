"""Bugs in the engine and its loops."""

from typing import Final

from tests.mutants.mutant import Mutant

SERVICES: Final = (
    Mutant(
        name="an engine that lost its lease goes on with its work",
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
        test="test_an_engine_that_cannot_renew_its_lease_stops_its_work_by_itself",
    ),
    Mutant(
        name="KeyboardInterrupt ends the server",
        file="services/job_errors.py",
        edits=(("        return not _is_interrupt(error)", "        return False"),),
        test_file="tests/engine/test_poison.py",
        test="test_a_job_that_raises_what_ends_programs_fails_alone",
    ),
    Mutant(
        name="a forked child that returns from its job acts as a second engine",
        file="forked.py",
        edits=(("        self.count += 1\n", "        return\n"),),
        test_file="tests/engine/test_poison.py",
        test="test_a_forked_child_that_returns_from_its_job_exits_and_the_parent_goes_on",
    ),
    Mutant(
        name="nobody looks unless there was a hint",
        file="services/engine/claimer.py",
        edits=(
            (
                "            await is_set_within(self._wake, POLL_S)",
                "            await self._wake.wait()",
            ),
        ),
        test_file="tests/engine/test_hints.py",
        test="test_with_every_hint_lost_polling_still_starts_and_finds_the_end",
    ),
    Mutant(
        name="of waits that overlap each wants a slot for itself",
        file="services/context/slot_switch.py",
        edits=(("elif not is_waiting and not self._has_slot:", "elif not self._has_slot:"),),
        test_file="tests/engine/test_slots.py",
        test="test_of_waits_that_overlap_the_first_gives_the_slot_back_and_the_last_gets_it",
    ),
    Mutant(
        name="a job that waits keeps its slot",
        file="services/context/slot_switch.py",
        edits=(("if is_waiting and self._has_slot:", "if is_waiting and not self._has_slot:"),),
        test_file="tests/engine/test_waiting.py",
        test="test_a_sleep_gives_its_slot_to_others",
    ),
    Mutant(
        name="the sweep leaves queued runs alone, however late",
        file="services/engine/sweep.py",
        edits=(
            (
                "if run.status is RunStatus.RUNNING and (run.run_deadline_at",
                "if run.status is not RunStatus.CANCELLING and (run.run_deadline_at",
            ),
        ),
        test_file="tests/engine/test_order.py",
        test="test_a_run_that_waits_too_long_in_the_queue_is_timed_out",
    ),
    Mutant(
        name="who waits for a run of another process is told by hints alone",
        file="services/submit/run_watcher.py",
        edits=(("            self._tell_all(asked, found)\n", ""),),
        test_file="tests/engine/test_news.py",
        test="test_many_who_wait_share_one_look_and_each_wakes_for_its_own",
    ),
    Mutant(
        name="what happens while a handle looks is missed",
        file="services/submit/run_watcher.py",
        edits=(("        if self._told_seq > run_seq:\n", "        if False:\n"),),
        test_file="tests/engine/test_news.py",
        test="test_what_happens_during_a_look_is_not_missed",
    ),
    Mutant(
        name="the sweep moves five hundred a second and no more",
        file="services/engine/sweep.py",
        edits=(
            ("        if len(page.due) < COUNT_MAX or page.due <= moved:", "        if page.due:"),
        ),
        test_file="tests/contract/test_timeouts.py",
        test="test_the_sweep_goes_on_while_more_is_due",
    ),
    Mutant(
        name="who waits for a person is looked at no more often than others",
        file="services/engine/engine.py",
        edits=(("if one.asking_count])", "if False])"),),
        test_file="tests/engine/test_looks.py",
        test="test_only_who_waits_for_a_person_is_looked_at_often",
    ),
    Mutant(
        name="a told job that returns succeeds",
        file="services/context/execution.py",
        edits=(
            (
                "        return ending is Ending.SHUTDOWN and not is_interrupted\n",
                "        return ending is Ending.CANCELLED or not is_interrupted\n",
            ),
        ),
        test_file="tests/engine/test_told.py",
        test="test_a_job_that_returns_after_a_cancel_has_reached_it_ends_canceled",
    ),
    Mutant(
        name="a job that its process has interrupted has finished",
        file="services/context/execution.py",
        edits=(
            (
                "        return ending is Ending.SHUTDOWN and not is_interrupted\n",
                "        return ending is Ending.SHUTDOWN\n",
            ),
        ),
        test_file="tests/engine/test_told.py",
        test="test_a_job_that_returns_because_its_process_stops_is_executed_again",
    ),
    Mutant(
        name="a stop closes the question",
        file="services/context/interrupts.py",
        edits=(
            (
                "            if self._execution.ending is None:\n",
                "            if self._execution.ending is not Ending.LOST:\n",
            ),
        ),
        test_file="tests/engine/test_open_questions.py",
        test="test_a_stop_leaves_the_question_open_and_the_next_execution_waits_for_it",
    ),
    Mutant(
        name="who is executed again asks under a name of its own",
        file="services/context/interrupts.py",
        edits=(("        if not is_named:\n", "        if False:\n"),),
        test_file="tests/engine/test_open_questions.py",
        test="test_a_stop_leaves_the_question_open_and_the_next_execution_waits_for_it",
    ),
)
