"""Bugs in flows and in the driver of their tasks."""

from typing import Final

from tests.mutants.mutant import Mutant

FLOWS: Final = (
    Mutant(
        name="a step is done before it is stored",
        file="services/flow/drive.py",
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
        test_file="tests/service/flow/test_family.py",
        test="test_i1_a_call_that_ends_while_a_lost_commit_is_awaited_is_not_made_again",
    ),
    Mutant(
        name="a task that goes on takes the version that is newest now",
        file="services/flow/drive.py",
        edits=(
            (
                'definitions.flow(pin["flow"], pin["version"]))',
                'definitions.flow(pin["flow"], 2 if self._context.generation > 1 else 1))',
            ),
        ),
        test_file="tests/service/flow/test_tasks.py",
        test="test_r5_11_a_parked_task_holds_nothing_and_a_signal_wakes_it",
    ),
    Mutant(
        name="a signal that comes before its node is reached is forgotten",
        file="core/flow/step.py",
        edits=(
            (
                "            walk.set_shared(state.frames[0], key, value)\n            if",
                (
                    "            if frame.is_entered and isinstance(rules, Wait):\n"
                    "                walk.set_shared(state.frames[0], key, value)\n            if"
                ),
            ),
        ),
        test_file="tests/service/flow/test_tasks.py",
        test="test_r5_11_an_early_signal_is_kept_until_its_node_is_reached",
    ),
    Mutant(
        name="a child whose time is over runs on",
        file="services/flow/drive.py",
        edits=(
            (
                "cancelled = self._children.cancelled_by(commit.commands)",
                "cancelled = list(self._children.open.values())[:0]",
            ),
        ),
        test_file="tests/service/flow/test_timeouts.py",
        test="test_r5_10_a_child_whose_time_is_over_is_cancelled_though_its_parent_was_parked",
    ),
    Mutant(
        name="the parent of a child that is cancelled is told nothing",
        file="core/command/cancel.py",
        edits=(
            (
                "        if answer is CancelAnswer.CANCELED:\n",
                "        if answer is CancelAnswer.NOT_FOUND:\n",
            ),
        ),
        test_file="tests/service/flow/test_family.py",
        test="test_r5_5_the_end_of_a_child_that_somebody_cancels_is_told_to_its_parent",
    ),
)
