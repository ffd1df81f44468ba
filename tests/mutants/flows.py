"""Bugs in flows and in the driver of their tasks."""

from typing import Final

from tests.mutants.mutant import Mutant

FLOWS: Final = (
    Mutant(
        name="a step is done before it is stored",
        file="services/flow/driver.py",
        edits=(
            (
                "                await self._keep(commit)\n",
                (
                    "                await self._calls.perform("
                    "commit.commands, stepped=[], may_stay=False)\n"
                    "                await self._keep(commit)\n"
                ),
            ),
        ),
        test_file="tests/engine/flow/test_family.py",
        test="test_a_call_that_ends_while_a_lost_commit_is_awaited_is_not_made_again",
    ),
    Mutant(
        name="a task that goes on takes the version that is newest now",
        file="services/flow/driver.py",
        edits=(
            (
                'definitions.flow(pin["flow"], pin["version"]))',
                'definitions.flow(pin["flow"], 2 if self._context.generation > 1 else 1))',
            ),
        ),
        test_file="tests/engine/flow/test_tasks.py",
        test="test_a_parked_task_holds_nothing_and_a_signal_wakes_it",
    ),
    Mutant(
        name="a signal that comes before its node is reached is forgotten",
        file="core/flow/engine/step.py",
        edits=(
            (
                "            walk.set_shared(state.frames[0], key, value)\n            if",
                (
                    "            if frame.is_entered and isinstance(rules, Wait):\n"
                    "                walk.set_shared(state.frames[0], key, value)\n            if"
                ),
            ),
        ),
        test_file="tests/engine/flow/test_tasks.py",
        test="test_an_early_signal_is_kept_until_its_node_is_reached",
    ),
    Mutant(
        name="a driver looks at the time before it takes in what was accepted in time",
        file="services/flow/driver.py",
        edits=(
            (
                "[*map(_signal, first), Woken(), *map(_signal, later), *children]",
                "[Woken(), *map(_signal, signals), *children]",
            ),
        ),
        test_file="tests/engine/flow/test_signals.py",
        test="test_what_was_accepted_in_time_counts_though_it_is_taken_in_late",
    ),
    Mutant(
        name="a task succeeds without a signal that was accepted before",
        file="core/command/flow/advance.py",
        edits=(("        if is_put_off:\n", "        if is_put_off and end.error:\n"),),
        test_file="tests/engine/flow/test_signals.py",
        test="test_a_signal_that_is_accepted_before_the_end_is_in_the_result",
    ),
    Mutant(
        name="a child whose time is over runs on",
        file="services/flow/driver.py",
        edits=(
            (
                "cancelled = self._children.cancelled_by(commit.commands)",
                "cancelled = list(self._children.open.values())[:0]",
            ),
        ),
        test_file="tests/engine/flow/test_timeouts.py",
        test="test_a_child_whose_time_is_over_is_cancelled_though_its_parent_was_parked",
    ),
    Mutant(
        name="the parent of a child that is cancelled is told nothing",
        file="core/command/run/cancel.py",
        edits=(
            (
                "        if answer is CancelAnswer.CANCELED:\n",
                "        if answer is CancelAnswer.NOT_FOUND:\n",
            ),
        ),
        test_file="tests/engine/flow/test_family.py",
        test="test_the_end_of_a_child_that_somebody_cancels_is_told_to_its_parent",
    ),
    Mutant(
        name="signals at once are each measured alone",
        file="core/command/flow/shared_state.py",
        edits=(("self.beside.size + self._later_size(world)", "self.beside.size"),),
        test_file="tests/contract/test_flows.py",
        test="test_signals_that_find_room_alone_are_not_taken_together",
    ),
    Mutant(
        name="a program that creates a flow is given another program's flow of that name",
        file="services/flow/catalog.py",
        edits=(
            (
                "return await self._publish(wanted, None, expected_revision=0, by=by)",
                "return await self._publish(wanted, None, by=by)",
            ),
        ),
        test_file="tests/api/test_wire_rules.py",
        test="test_two_programs_with_one_flow_name_run_their_own_definitions",
    ),
    Mutant(
        name="without max_attempts only one worker is asked",
        file="core/flow/engine/calls.py",
        edits=(("(node.max_attempts or ASKED_COUNT_MAX)", "(node.max_attempts or 1)"),),
        test_file="tests/api/test_wire_rules.py",
        test="test_max_attempts_bounds_how_many_workers_are_asked",
    ),
    Mutant(
        name="a worker without a connection hides what another one reported",
        file="services/flow/workers.py",
        edits=(
            (
                "            if command.attempt == 1:\n                untaken",
                "            if True:\n                untaken",
            ),
        ),
        test_file="tests/api/test_wire_rules.py",
        test="test_a_worker_without_a_connection_does_not_hide_what_another_reported",
    ),
    Mutant(
        name="a failure follows the default edge though the flow fails on errors",
        file="core/flow/engine/step_context.py",
        edits=(("        if target is None and not is_strict:\n", "        if target is None:\n"),),
        test_file="tests/api/test_error_policy.py",
        test=(
            "test_a_failed_step_is_not_followed_by_the_next_one_unless_the_root_paths_published_it"
        ),
    ),
    Mutant(
        name="the wait for a worker begins again after a restart",
        file="core/flow/engine/stored_state.py",
        edits=(('missing_since=dict(document.get("missing", {}))', "missing_since={}"),),
        test_file="tests/engine/flow/test_worker_wait.py",
        test="test_the_wait_for_a_worker_does_not_begin_again_after_a_restart",
    ),
    Mutant(
        name="nobody wakes a task whose worker has come",
        file="services/flow/catalog.py",
        edits=(("            await self._worker_watch.look()\n", "            pass\n"),),
        test_file="tests/engine/flow/test_worker_wait.py",
        test="test_a_task_without_a_worker_is_parked_and_goes_on_when_one_registers",
    ),
)
