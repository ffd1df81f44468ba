"""Bugs in the engine and its loops."""

from typing import Final

from tests.mutants.mutant import Mutant

SERVICES: Final = (
    Mutant(
        name="an engine that lost its lease goes on with its work",
        file="services/engine.py",
        edits=(
            (
                (
                    "        for execution in list(self._executing.values()):\n"
                    "            execution.end(Ending.LOST)\n"
                ),
                "",
            ),
        ),
        test_file="tests/service/test_stop.py",
        test="test_r4_13_an_engine_that_cannot_renew_its_lease_stops_its_work_by_itself",
    ),
    Mutant(
        name="nobody looks unless there was a hint",
        file="services/claiming.py",
        edits=(
            (
                "            await is_set_within(self._wake, POLL_S)",
                "            await self._wake.wait()",
            ),
        ),
        test_file="tests/service/test_hints.py",
        test="test_i8_with_every_hint_lost_polling_still_starts_and_finds_the_end",
    ),
    Mutant(
        name="of waits that overlap each wants a slot for itself",
        file="services/slot.py",
        edits=(("elif not is_waiting and not self._has_slot:", "elif not self._has_slot:"),),
        test_file="tests/service/test_slots.py",
        test="test_i5_of_waits_that_overlap_the_first_gives_the_slot_back_and_the_last_gets_it",
    ),
    Mutant(
        name="a job that waits keeps its slot",
        file="services/slot.py",
        edits=(("if is_waiting and self._has_slot:", "if is_waiting and not self._has_slot:"),),
        test_file="tests/service/test_waiting.py",
        test="test_i5_a_sleep_gives_its_slot_to_others",
    ),
    Mutant(
        name="the sweep leaves queued runs alone, however late",
        file="services/sweep.py",
        edits=(
            (
                "if run.status is RunStatus.RUNNING and (run.run_by",
                "if run.status is not RunStatus.CANCELLING and (run.run_by",
            ),
        ),
        test_file="tests/service/test_order.py",
        test="test_r2_8_a_run_that_waits_too_long_in_the_queue_is_timed_out",
    ),
)
