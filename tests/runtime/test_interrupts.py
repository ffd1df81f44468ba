"""Interrupts: created, answered, cancelled, timed out (R4.9, R4.12, R4.15)."""

import asyncio

import pytest

from headway.core.ids import Key, RunId
from headway.runtime import (
    CANCELED_ANSWER,
    SHUTDOWN_ANSWER,
    Hint,
    InjectAnswer,
    ResolveAnswer,
    RuntimeLimits,
)
from tests.runtime.scenes import (
    NO,
    SHARED,
    YES,
    Runtime,
    RuntimeTarget,
    a_claim,
    a_key,
    until,
    until_waiting,
)


def a_run() -> RunId:
    return a_claim().run_id


@pytest.mark.proves("R4.9")
async def test_answer_wakes_the_wait(runtime: Runtime, another: Runtime) -> None:
    run_id = a_run()
    assert await runtime.create_interrupt(run_id, "call-1")
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(runtime.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(runtime, run_id, "call-1")
        answer = await another.resolve_interrupt(run_id, "call-1", YES)
        assert answer is ResolveAnswer.RESOLVED
    assert wait.result() == YES


@pytest.mark.proves("R4.12")
async def test_answer_between_creating_and_subscribing_is_not_lost(
    runtime: Runtime, another: Runtime
) -> None:
    """This fails without the third of the four steps: the check after subscribing."""
    run_id = a_run()
    await runtime.create_interrupt(run_id, "call-1")
    assert await another.resolve_interrupt(run_id, "call-1", YES) is ResolveAnswer.RESOLVED
    async with asyncio.timeout(20):  # Well below the interval of the regular check.
        assert await runtime.wait_for_interrupt(run_id, "call-1") == YES


@pytest.mark.proves("R4.9")
async def test_unanswered_wait_returns_none(runtime: Runtime) -> None:
    assert await runtime.wait_for_interrupt(a_run(), "call-1", timeout_s=0.05) is None


@pytest.mark.proves("R4.9")
async def test_default_timeout_comes_from_the_limits(target: RuntimeTarget) -> None:
    limits = RuntimeLimits(permission_timeout_s=0.05)
    async with target.open(limits) as store:
        assert await store.wait_for_interrupt(a_run(), "call-1") is None


@pytest.mark.proves("R4.15")
async def test_answer_to_a_timed_out_interrupt_is_refused(
    runtime: Runtime, another: Runtime
) -> None:
    run_id = a_run()
    assert await runtime.wait_for_interrupt(run_id, "old", timeout_s=0.05) is None
    assert await another.resolve_interrupt(run_id, "old", YES) is ResolveAnswer.NOT_WAITING
    await runtime.create_interrupt(run_id, "new")
    assert await another.resolve_interrupt(run_id, "old", YES) is ResolveAnswer.STALE
    assert await another.resolve_interrupt(run_id, "new", NO) is ResolveAnswer.RESOLVED
    assert await runtime.wait_for_interrupt(run_id, "new") == NO


@pytest.mark.proves("R4.15")
async def test_interrupt_is_answered_once(runtime: Runtime, another: Runtime) -> None:
    run_id = a_run()
    await runtime.create_interrupt(run_id, "call-1")
    await runtime.create_interrupt(run_id, "call-2")
    answers = await asyncio.gather(
        runtime.resolve_interrupt(run_id, "call-1", YES),
        another.resolve_interrupt(run_id, "call-1", NO),
    )
    assert sorted(answers) == [ResolveAnswer.RESOLVED, ResolveAnswer.STALE]
    answer = await another.wait_for_interrupt(run_id, "call-1")
    assert answer == (YES if answers[0] is ResolveAnswer.RESOLVED else NO)
    await runtime.resolve_interrupt(run_id, "call-2", YES)
    assert await another.resolve_interrupt(run_id, "call-2", NO) is ResolveAnswer.NOT_WAITING


@pytest.mark.proves("R4.9")
async def test_run_can_have_several_open_interrupts(runtime: Runtime, another: Runtime) -> None:
    run_id = a_run()
    calls = [f"call-{number}" for number in range(5)]
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(runtime.wait_for_interrupt(run_id, call)) for call in calls]
        await until_waiting(runtime, run_id, *calls)
        for call in reversed(calls):
            await another.resolve_interrupt(run_id, call, YES if call == "call-3" else NO)
    assert [wait.result() for wait in waits] == [NO, NO, NO, YES, NO]


@pytest.mark.proves("R4.9")
async def test_cancel_wakes_every_wait_of_the_run(runtime: Runtime, another: Runtime) -> None:
    run_id, other_id = a_run(), a_run()
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(runtime.wait_for_interrupt(run_id, call)) for call in ("a", "b")]
        other_wait = group.create_task(runtime.wait_for_interrupt(other_id, "a"))
        await until_waiting(runtime, run_id, "a", "b")
        await until_waiting(runtime, other_id, "a")
        await another.request_cancel(run_id)
        assert await asyncio.gather(*waits) == [CANCELED_ANSWER, CANCELED_ANSWER]
        assert not other_wait.done()
        await another.resolve_interrupt(other_id, "a", YES)
    assert CANCELED_ANSWER == '{"approved":false,"reason":"cancelled"}'
    assert await another.resolve_interrupt(run_id, "a", YES) is ResolveAnswer.NOT_WAITING


@pytest.mark.proves("R4.9")
async def test_interrupt_created_after_the_cancel_returns_at_once_as_canceled(
    runtime: Runtime, another: Runtime
) -> None:
    run_id = a_run()
    await another.request_cancel(run_id)
    assert await runtime.create_interrupt(run_id, "call-1")
    assert await another.resolve_interrupt(run_id, "call-1", YES) is ResolveAnswer.NOT_WAITING
    assert await runtime.wait_for_interrupt(run_id, "call-1") == CANCELED_ANSWER


@pytest.mark.proves("R4.9")
async def test_answer_given_before_the_cancel_is_returned(
    runtime: Runtime, another: Runtime
) -> None:
    run_id = a_run()
    await runtime.create_interrupt(run_id, "call-1")
    await another.resolve_interrupt(run_id, "call-1", YES)
    await another.request_cancel(run_id)
    assert await runtime.wait_for_interrupt(run_id, "call-1") == YES


@pytest.mark.proves("R4.15")
async def test_shutdown_wakes_waits_and_keeps_leases(runtime: Runtime) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(runtime.wait_for_interrupt(claim.run_id, "call-1"))
        await until_waiting(runtime, claim.run_id, "call-1")
        await runtime.shutdown_cleanup()
    assert wait.result() == SHUTDOWN_ANSWER == '{"approved":false,"reason":"shutdown"}'
    assert await runtime.acquire_lease(key, a_claim()) == claim.run_id
    assert await runtime.wait_for_interrupt(claim.run_id, "call-2") == SHUTDOWN_ANSWER
    closed = await runtime.resolve_interrupt(claim.run_id, "call-1", YES)
    assert closed is ResolveAnswer.NOT_WAITING
    await runtime.cleanup_execution(key, claim)
    assert await runtime.acquire_lease(key, a_claim()) is None


@pytest.mark.proves("R4.9")
async def test_accepted_answer_is_returned_after_a_shutdown(runtime: Runtime) -> None:
    run_id = a_run()
    await runtime.create_interrupt(run_id, "call-1")
    await runtime.resolve_interrupt(run_id, "call-1", YES)
    await runtime.shutdown_cleanup()
    assert await runtime.wait_for_interrupt(run_id, "call-1") == YES


@pytest.mark.proves("R4.9")
@pytest.mark.parametrize("backend", SHARED, indirect=True)
async def test_shutdown_of_one_instance_does_not_wake_waits_of_another(
    runtime: Runtime, another: Runtime
) -> None:
    run_id = a_run()
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(runtime.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(runtime, run_id, "call-1")
        await another.shutdown_cleanup()
        await another.resolve_interrupt(run_id, "call-1", YES)
    assert wait.result() == YES


@pytest.mark.proves("R4.9")
async def test_cleanup_wakes_a_wait_that_is_still_open(runtime: Runtime, another: Runtime) -> None:
    key, claim = a_key(), a_claim()
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(runtime.wait_for_interrupt(claim.run_id, "call-1"))
        await until_waiting(runtime, claim.run_id, "call-1")
        await another.cleanup_execution(key, claim)
    assert wait.result() is None


@pytest.mark.proves("R4.15")
async def test_interrupt_stays_open_after_its_lease_ends(target: RuntimeTarget) -> None:
    key, claim = a_key(), a_claim()
    async with target.open(RuntimeLimits(lease_ttl_s=0.05)) as store:
        await store.acquire_lease(key, claim)
        async with asyncio.TaskGroup() as group:
            wait = group.create_task(store.wait_for_interrupt(claim.run_id, "call-1"))
            await until_waiting(store, claim.run_id, "call-1")
            if target.is_memory:  # In memory, leases do not expire.
                await store.release_lease(key, claim)
            await until(lambda: _acquires(store, key), what="the lease has ended")
            assert not wait.done()
            answer = await store.resolve_interrupt(claim.run_id, "call-1", YES)
            assert answer is ResolveAnswer.RESOLVED
        assert wait.result() == YES


async def _acquires(store: Runtime, key: Key) -> bool:
    return await store.acquire_lease(key, a_claim()) is None


@pytest.mark.proves("R4.15")
async def test_interrupt_that_times_out_does_not_end_the_run(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim)
    assert await runtime.wait_for_interrupt(claim.run_id, "call-1", timeout_s=0.05) is None
    assert await runtime.renew_lease(key, claim)
    assert not await runtime.is_cancelled(claim.run_id)
    answer = await another.inject_message(key, claim.run_id, YES)
    assert answer is InjectAnswer.INJECTED


@pytest.mark.proves("R4.9")
async def test_next_executor_of_a_run_receives_the_answer_to_its_interrupt(
    runtime: Runtime, another: Runtime
) -> None:
    run_id = a_run()
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(runtime.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(runtime, run_id, "call-1")
        wait.cancel()  # The executor is gone, but the interrupt stays open.
    assert await another.resolve_interrupt(run_id, "call-1", YES) is ResolveAnswer.RESOLVED
    assert await another.create_interrupt(run_id, "call-1")
    assert await another.wait_for_interrupt(run_id, "call-1") == YES


@pytest.mark.proves("R4.15")
async def test_number_of_open_interrupts_per_run_is_limited(target: RuntimeTarget) -> None:
    run_id = a_run()
    async with target.open(RuntimeLimits(interrupt_count_max=2)) as store:
        assert await store.create_interrupt(run_id, "a")
        assert await store.create_interrupt(run_id, "b")
        assert await store.create_interrupt(run_id, "a")  # It exists already.
        assert not await store.create_interrupt(run_id, "c")
        assert await store.wait_for_interrupt(run_id, "c") is None
        assert await store.create_interrupt(a_run(), "c")


@pytest.mark.proves("R4.9")
async def test_hint_makes_the_wait_check_again_without_ending_it(
    runtime: Runtime, another: Runtime
) -> None:
    run_id = a_run()
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(runtime.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(runtime, run_id, "call-1")
        for hint in Hint:
            await another.publish_hint(run_id, hint)
        await until_waiting(runtime, run_id, "call-1")
        assert not wait.done()
        await another.resolve_interrupt(run_id, "call-1", YES)
    assert wait.result() == YES
