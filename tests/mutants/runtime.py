"""Bugs in the runtime store."""

from typing import Final

from tests.mutants.mutant import Mutant

RUNTIME: Final = (
    Mutant(
        name="a waiter in Redis does not check for an answer after subscribing",
        file="runtime/redis/redis_runtime_store.py",
        edits=(
            ("        await self._check_for_answer(run_id, wait)\n        while", "        while"),
        ),
        test_file="tests/runtime/test_interrupts.py",
        test="test_answer_between_creating_and_subscribing_is_not_lost",
        backend="redis",
    ),
    Mutant(
        name="a waiter in memory does not check for an earlier answer",
        file="runtime/memory_runtime_store.py",
        edits=(
            (
                "        if interrupt.answer is not None:\n            return",
                "        if False:\n            return",
            ),
        ),
        test_file="tests/runtime/test_interrupts.py",
        test="test_answer_between_creating_and_subscribing_is_not_lost",
    ),
    Mutant(
        name="watchers do not read again after the connection to Redis was lost",
        file="runtime/redis/pubsub_connection.py",
        edits=(("            self.notify(RESYNC)\n", "            pass\n"),),
        test_file="tests/runtime/test_outages.py",
        test="test_watcher_receives_a_resync_hint_after_a_disconnect",
        backend="redis",
    ),
    Mutant(
        name="a lease in Redis is renewed for any owner",
        file="runtime/redis/lua_scripts.py",
        edits=(
            (
                "then return 0 end\nredis.call('PEXPIRE', KEYS[1], ARGV[2])",
                "then return 1 end\nredis.call('PEXPIRE', KEYS[1], ARGV[2])",
            ),
        ),
        test_file="tests/runtime/test_leases.py",
        test="test_only_the_owner_renews_and_releases_a_lease",
        backend="redis",
    ),
    Mutant(
        name="a message to a run that reads no messages is accepted in Redis",
        file="runtime/redis/lua_scripts.py",
        edits=(("if length == 0 then return 'not_streaming' end\n", ""),),
        test_file="tests/runtime/test_messages.py",
        test="test_message_sent_as_the_loop_ends_is_returned_or_refused",
        backend="redis",
    ),
    Mutant(
        name="hints published before the subscription are missed",
        file="services/engine/hint_relay.py",
        edits=(("            self._on_hint(execution, Hint.RESYNC)\n", ""),),
        test_file="tests/engine/test_hint_relay.py",
        test="test_a_cancel_sent_before_the_subscription_is_found",
        backend="redis",
    ),
    Mutant(
        name="an execution with a stale claim continues after it lost its lease",
        file="services/engine/key_lease.py",
        edits=(("        if not await self.is_claim_current():\n", "        if False:\n"),),
        test_file="tests/engine/test_hint_relay.py",
        test="test_an_execution_with_a_stale_claim_stops_when_it_loses_the_lease",
        backend="redis",
    ),
    Mutant(
        name="a run is canceled although its loop has ended",
        file="core/command/run/cancel.py",
        edits=((" or run.window == Window.CLOSED", ""),),
        test_file="tests/contract/test_message_windows.py",
        test="test_cancel_after_the_loop_ended_is_too_late_and_the_run_keeps_its_key",
    ),
)
