"""Bugs in flows and in the driver that executes their tasks."""

from typing import Final

from tests.mutants.mutant import Mutant

FLOWS: Final = (
    Mutant(
        name="the calls of a step are made before the step is stored",
        file="services/flow/driver.py",
        edits=(
            (
                "                await self._save(result)\n",
                (
                    "                await self._calls.perform("
                    "result.effects, processed=[], may_run_inline=False)\n"
                    "                await self._save(result)\n"
                ),
            ),
        ),
        test_file="tests/engine/flow/test_child_tasks.py",
        test="test_a_call_that_ends_while_a_lost_commit_is_retried_is_not_repeated",
    ),
    Mutant(
        name="a task that continues uses the newest version of its flow",
        file="services/flow/driver.py",
        edits=(
            (
                'definitions.flow(checkpoint["flow"], checkpoint["version"])',
                'definitions.flow(checkpoint["flow"], 2 if self._context.generation > 1 else 1)',
            ),
        ),
        test_file="tests/engine/flow/test_tasks.py",
        test="test_a_parked_task_holds_nothing_and_a_signal_wakes_it",
    ),
    Mutant(
        name="a signal that arrives before its node is reached is dropped",
        file="core/flow/engine/step.py",
        edits=(
            (
                "            context.set_shared(state.frames[0], key, value)\n            if",
                (
                    "            if frame.is_entered and isinstance(handler, WaitHandler):\n"
                    "                context.set_shared(state.frames[0], key, value)\n"
                    "            if"
                ),
            ),
        ),
        test_file="tests/engine/flow/test_tasks.py",
        test="test_an_early_signal_is_stored_until_its_node_is_reached",
    ),
    Mutant(
        name="timeouts are applied before the signals that were accepted in time",
        file="services/flow/driver.py",
        edits=(
            (
                "[*map(_to_signal, early), Woken(), *map(_to_signal, later), *children]",
                "[Woken(), *map(_to_signal, signals), *children]",
            ),
        ),
        test_file="tests/engine/flow/test_signals.py",
        test="test_a_signal_accepted_in_time_counts_even_if_it_is_applied_late",
    ),
    Mutant(
        name="a task succeeds without a signal that was accepted before its end",
        file="core/command/flow/advance.py",
        edits=(("        if is_postponed:\n", "        if is_postponed and end.error:\n"),),
        test_file="tests/engine/flow/test_signals.py",
        test="test_a_signal_accepted_before_the_end_is_in_the_result",
    ),
    Mutant(
        name="a child task continues after the timeout of its node",
        file="services/flow/driver.py",
        edits=(
            (
                "cancelled = self._children.list_cancelled(result.effects)",
                "cancelled = list(self._children.open_child_ids.values())[:0]",
            ),
        ),
        test_file="tests/engine/flow/test_timeouts.py",
        test="test_a_timeout_cancels_the_children_of_a_parked_parent",
    ),
    Mutant(
        name="the cancel of a child task does not wake its parent",
        file="core/command/run/cancel.py",
        edits=(
            (
                "        if answer is CancelResult.CANCELED:\n",
                "        if answer is CancelResult.NOT_FOUND:\n",
            ),
        ),
        test_file="tests/engine/flow/test_child_tasks.py",
        test="test_cancelling_a_child_resumes_its_parent",
    ),
    Mutant(
        name="the size limit is checked for each signal of a batch alone",
        file="core/command/flow/shared_state.py",
        edits=(("self.usage.byte_count + self._later_byte_count(batch)", "self.usage.byte_count"),),
        test_file="tests/contract/test_flows.py",
        test="test_two_signals_that_are_too_large_together_are_not_both_accepted",
    ),
    Mutant(
        name="a program that creates a flow gets another program's flow of the same name",
        file="services/flow/catalog.py",
        edits=(
            (
                "return await self._publish(candidate, None, expected_revision=0, by=by)",
                "return await self._publish(candidate, None, by=by)",
            ),
        ),
        test_file="tests/api/test_wire_rules.py",
        test="test_programs_that_use_the_same_flow_name_run_their_own_definitions",
    ),
    Mutant(
        name="without max_attempts only one worker is called",
        file="core/flow/engine/calls.py",
        edits=(("(node.max_attempts or WORKER_COUNT_MAX)", "(node.max_attempts or 1)"),),
        test_file="tests/api/test_wire_rules.py",
        test="test_max_attempts_limits_how_many_workers_are_called",
    ),
    Mutant(
        name="an unreachable worker hides the error that another worker reported",
        file="services/flow/workers.py",
        edits=(
            (
                "            if command.attempt == 1:\n                unavailable",
                "            if True:\n                unavailable",
            ),
        ),
        test_file="tests/api/test_wire_rules.py",
        test="test_unreachable_worker_does_not_hide_the_error_reported_by_another_worker",
    ),
    Mutant(
        name="a failure follows the default edge though the flow fails on errors",
        file="core/flow/engine/step_context.py",
        edits=(("        if target is None and not is_strict:\n", "        if target is None:\n"),),
        test_file="tests/api/test_error_policy.py",
        test=("test_failed_step_ends_the_task_unless_the_flow_was_published_at_the_root_paths"),
    ),
    Mutant(
        name="the time limit of the wait for a worker starts again after a restart",
        file="core/flow/engine/stored_state.py",
        edits=(('missing_since=dict(document.get("missing", {}))', "missing_since={}"),),
        test_file="tests/engine/flow/test_worker_wait.py",
        test="test_the_wait_for_a_worker_does_not_start_again_after_a_restart",
    ),
    Mutant(
        name="a task that waits for a worker is not woken when one registers",
        file="services/flow/open_flows.py",
        edits=(("            await self.worker_watch.poll()\n", "            pass\n"),),
        test_file="tests/engine/flow/test_worker_wait.py",
        test="test_a_task_without_a_worker_is_parked_and_resumes_when_one_registers",
    ),
)
