"""Bugs in the runtime store."""

from typing import Final

from tests.mutants.mutant import Mutant

RUNTIME: Final = (
    Mutant(
        name="who waits does not look again after subscribing",
        file="adapters/redis/redis_runtime_store.py",
        edits=(("        await self._look(run_id, wait)\n        while", "        while"),),
        test_file="tests/runtime/test_interrupts.py",
        test="test_an_answer_between_creating_and_subscribing_is_not_lost",
        backend="redis",
    ),
    Mutant(
        name="who waits in memory does not look whether it was answered",
        file="adapters/memory/memory_runtime_store.py",
        edits=(
            (
                "        if interrupt.answer is not None:\n            return",
                "        if False:\n            return",
            ),
        ),
        test_file="tests/runtime/test_interrupts.py",
        test="test_an_answer_between_creating_and_subscribing_is_not_lost",
    ),
    Mutant(
        name="nobody looks again when the line to Redis was down",
        file="adapters/redis/pubsub_connection.py",
        edits=(("            self.tell(LOOK)\n", "            pass\n"),),
        test_file="tests/runtime/test_outages.py",
        test="test_a_watcher_is_told_to_look_after_an_interruption",
        backend="redis",
    ),
    Mutant(
        name="anybody renews a lease in Redis",
        file="adapters/redis/lua_scripts.py",
        edits=(
            (
                "then return 0 end\nredis.call('PEXPIRE', KEYS[1], ARGV[2])",
                "then return 1 end\nredis.call('PEXPIRE', KEYS[1], ARGV[2])",
            ),
        ),
        test_file="tests/runtime/test_leases.py",
        test="test_only_the_owner_renews_and_releases",
        backend="redis",
    ),
    Mutant(
        name="a message is accepted for a run that reads none",
        file="adapters/redis/lua_scripts.py",
        edits=(("if length == 0 then return 'not_streaming' end\n", ""),),
        test_file="tests/runtime/test_messages.py",
        test="test_what_comes_as_the_loop_ends_is_given_back_or_refused",
        backend="redis",
    ),
    Mutant(
        name="who begins to listen does not look for what was said before",
        file="services/engine/hint_relay.py",
        edits=(("            self._hear(execution, Hint.LOOK)\n", ""),),
        test_file="tests/engine/test_reach.py",
        test="test_what_was_said_before_anybody_listened_is_found",
        backend="redis",
    ),
    Mutant(
        name="a lost lease stops nobody",
        file="services/engine/key_lease.py",
        edits=(("        if not await self.is_claim_in_force():\n", "        if False:\n"),),
        test_file="tests/engine/test_reach.py",
        test="test_who_lost_the_claim_stops_by_itself_when_it_loses_the_lease",
        backend="redis",
    ),
    Mutant(
        name="a run is cancelled though its loop is over",
        file="core/command/run/cancel.py",
        edits=((" or run.window == Window.CLOSED", ""),),
        test_file="tests/contract/test_windows.py",
        test="test_after_the_loop_a_cancel_is_too_late_and_the_key_is_still_held",
    ),
)
