"""Bugs in the runtime store."""

from typing import Final

from tests.mutants.mutant import Mutant

RUNTIME: Final = (
    Mutant(
        name="who waits does not look again after subscribing",
        file="adapters/redis/runtime_store.py",
        edits=(("        await self._look(run_id, wait)\n        while", "        while"),),
        test_file="tests/runtime/test_interrupts.py",
        test="test_r4_12_an_answer_between_creating_and_subscribing_is_not_lost",
        backend="redis",
    ),
    Mutant(
        name="nobody looks again when the line to Redis was down",
        file="adapters/redis/line.py",
        edits=(("            self.tell(LOOK)\n", "            pass\n"),),
        test_file="tests/runtime/test_outages.py",
        test="test_a_watcher_is_told_to_look_after_an_interruption",
        backend="redis",
    ),
    Mutant(
        name="anybody renews a lease in Redis",
        file="adapters/redis/scripts.py",
        edits=(
            (
                "then return 0 end\nredis.call('PEXPIRE', KEYS[1], ARGV[2])",
                "then return 1 end\nredis.call('PEXPIRE', KEYS[1], ARGV[2])",
            ),
        ),
        test_file="tests/runtime/test_leases.py",
        test="test_r4_8_only_the_owner_renews_and_releases",
        backend="redis",
    ),
    Mutant(
        name="a message is accepted for a run that reads none",
        file="adapters/redis/scripts.py",
        edits=(("if length == 0 then return 'not_streaming' end\n", ""),),
        test_file="tests/runtime/test_messages.py",
        test="test_r4_11_what_comes_as_the_loop_ends_is_given_back_or_refused",
        backend="redis",
    ),
)
