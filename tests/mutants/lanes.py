"""Bugs in the in-process lanes."""

from typing import Final

from tests.mutants.mutant import Mutant

LANES: Final = (
    Mutant(
        name="a failed task does not release its slot",
        file="lanes/lanes.py",
        edits=(
            (
                (
                    "                _log_failure(entry, error)\n            raise\n"
                    "        finally:\n            self._release(entry)\n"
                ),
                (
                    "                _log_failure(entry, error)\n            raise\n"
                    "        else:\n            self._release(entry)\n            return result\n"
                ),
            ),
            (
                "            return await self._run_work(entry, work, timeout_s)\n        except",
                "            result = await self._run_work(entry, work, timeout_s)\n        except",
            ),
        ),
        test_file="tests/lanes/test_order.py",
        test="test_failure_does_not_block_the_lane",
    ),
    Mutant(
        name="the late end of a task from before a reset frees a slot",
        file="lanes/lane.py",
        edits=(
            (
                "if generation == self.generation:\n            del self._active[task_id]",
                "self._active.pop(task_id, None) or (self._active and self._active.popitem())",
            ),
        ),
        test_file="tests/lanes/test_lane.py",
        test="test_task_of_an_old_generation_frees_no_slot_when_it_ends",
    ),
)
