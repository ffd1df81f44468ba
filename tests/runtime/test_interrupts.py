"""Questions to a person: asked, answered, cancelled, timed out (R4.9, R4.12, R4.15)."""

import asyncio

import pytest

from headway.core.ids import Key, RunId
from headway.ports.runtime_store import (
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
    Place,
    Runtime,
    a_claim,
    a_key,
    until,
    until_waiting,
)


def a_run() -> RunId:
    return a_claim().run_id


@pytest.mark.proves("R4.9")
async def test_an_answer_wakes_who_waits(runtime: Runtime, another: Runtime) -> None:
    run_id = a_run()
    assert await runtime.create_interrupt(run_id, "call-1")
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(runtime.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(runtime, run_id, "call-1")
        answer = await another.resolve_interrupt(run_id, "call-1", YES)
        assert answer is ResolveAnswer.RESOLVED
    assert wait.result() == YES


@pytest.mark.proves("R4.12")
async def test_an_answer_between_creating_and_subscribing_is_not_lost(
    runtime: Runtime, another: Runtime
) -> None:
    """Fails when the third of the four steps, to check again, is left out."""
    run_id = a_run()
    await runtime.create_interrupt(run_id, "call-1")
    assert await another.resolve_interrupt(run_id, "call-1", YES) is ResolveAnswer.RESOLVED
    async with asyncio.timeout(20):  # Far below the times after which it would be found anyway.
        assert await runtime.wait_for_interrupt(run_id, "call-1") == YES


@pytest.mark.proves("R4.9")
async def test_a_wait_that_nobody_answers_ends_with_none(runtime: Runtime) -> None:
    assert await runtime.wait_for_interrupt(a_run(), "call-1", timeout_s=0.05) is None


@pytest.mark.proves("R4.9")
async def test_the_usual_time_is_that_of_the_terms(place: Place) -> None:
    terms = RuntimeLimits(permission_timeout_s=0.05)
    async with place.opened(terms) as store:
        assert await store.wait_for_interrupt(a_run(), "call-1") is None


@pytest.mark.proves("R4.15")
async def test_an_answer_to_a_question_that_timed_out_is_refused(
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
async def test_a_question_is_answered_once(runtime: Runtime, another: Runtime) -> None:
    run_id = a_run()
    await runtime.create_interrupt(run_id, "call-1")
    await runtime.create_interrupt(run_id, "call-2")
    answers = await asyncio.gather(
        runtime.resolve_interrupt(run_id, "call-1", YES),
        another.resolve_interrupt(run_id, "call-1", NO),
    )
    assert sorted(answers) == [ResolveAnswer.RESOLVED, ResolveAnswer.STALE]
    heard = await another.wait_for_interrupt(run_id, "call-1")
    assert heard == (YES if answers[0] is ResolveAnswer.RESOLVED else NO)
    await runtime.resolve_interrupt(run_id, "call-2", YES)
    assert await another.resolve_interrupt(run_id, "call-2", NO) is ResolveAnswer.NOT_WAITING


@pytest.mark.proves("R4.9")
async def test_a_run_has_several_questions_at_once(runtime: Runtime, another: Runtime) -> None:
    run_id = a_run()
    calls = [f"call-{number}" for number in range(5)]
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(runtime.wait_for_interrupt(run_id, call)) for call in calls]
        await until_waiting(runtime, run_id, *calls)
        for call in reversed(calls):
            await another.resolve_interrupt(run_id, call, YES if call == "call-3" else NO)
    assert [wait.result() for wait in waits] == [NO, NO, NO, YES, NO]


@pytest.mark.proves("R4.9")
async def test_a_cancel_wakes_all_who_wait(runtime: Runtime, another: Runtime) -> None:
    run_id, other_id = a_run(), a_run()
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(runtime.wait_for_interrupt(run_id, call)) for call in ("a", "b")]
        spared = group.create_task(runtime.wait_for_interrupt(other_id, "a"))
        await until_waiting(runtime, run_id, "a", "b")
        await until_waiting(runtime, other_id, "a")
        await another.request_cancel(run_id)
        assert await asyncio.gather(*waits) == [CANCELED_ANSWER, CANCELED_ANSWER]
        assert not spared.done()
        await another.resolve_interrupt(other_id, "a", YES)
    assert CANCELED_ANSWER == '{"approved":false,"reason":"cancelled"}'
    assert await another.resolve_interrupt(run_id, "a", YES) is ResolveAnswer.NOT_WAITING


@pytest.mark.proves("R4.9")
async def test_a_question_of_a_cancelled_run_is_answered_at_once(
    runtime: Runtime, another: Runtime
) -> None:
    run_id = a_run()
    await another.request_cancel(run_id)
    assert await runtime.create_interrupt(run_id, "call-1")
    assert await another.resolve_interrupt(run_id, "call-1", YES) is ResolveAnswer.NOT_WAITING
    assert await runtime.wait_for_interrupt(run_id, "call-1") == CANCELED_ANSWER


@pytest.mark.proves("R4.9")
async def test_an_answer_before_the_cancel_stands(runtime: Runtime, another: Runtime) -> None:
    run_id = a_run()
    await runtime.create_interrupt(run_id, "call-1")
    await another.resolve_interrupt(run_id, "call-1", YES)
    await another.request_cancel(run_id)
    assert await runtime.wait_for_interrupt(run_id, "call-1") == YES


@pytest.mark.proves("R4.15")
async def test_a_shutdown_wakes_who_waits_and_leaves_the_leases(runtime: Runtime) -> None:
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
async def test_an_accepted_answer_is_heard_also_after_a_shutdown(runtime: Runtime) -> None:
    run_id = a_run()
    await runtime.create_interrupt(run_id, "call-1")
    await runtime.resolve_interrupt(run_id, "call-1", YES)
    await runtime.shutdown_cleanup()
    assert await runtime.wait_for_interrupt(run_id, "call-1") == YES


@pytest.mark.proves("R4.9")
@pytest.mark.parametrize("backend", SHARED, indirect=True)
async def test_a_shutdown_of_one_instance_is_not_that_of_another(
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
async def test_cleaning_up_wakes_who_still_waits(runtime: Runtime, another: Runtime) -> None:
    key, claim = a_key(), a_claim()
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(runtime.wait_for_interrupt(claim.run_id, "call-1"))
        await until_waiting(runtime, claim.run_id, "call-1")
        await another.cleanup_execution(key, claim)
    assert wait.result() is None


@pytest.mark.proves("R4.15")
async def test_a_lease_that_ends_is_not_the_end_of_a_question(place: Place) -> None:
    key, claim = a_key(), a_claim()
    async with place.opened(RuntimeLimits(lease_ttl_s=0.05)) as store:
        await store.acquire_lease(key, claim)
        async with asyncio.TaskGroup() as group:
            wait = group.create_task(store.wait_for_interrupt(claim.run_id, "call-1"))
            await until_waiting(store, claim.run_id, "call-1")
            if place.is_memory:  # There only its owner ends it.
                await store.release_lease(key, claim)
            await until(lambda: _takes(store, key), what="the lease is over")
            assert not wait.done()
            answer = await store.resolve_interrupt(claim.run_id, "call-1", YES)
            assert answer is ResolveAnswer.RESOLVED
        assert wait.result() == YES


async def _takes(store: Runtime, key: Key) -> bool:
    return await store.acquire_lease(key, a_claim()) is None


@pytest.mark.proves("R4.15")
async def test_a_question_that_times_out_is_not_the_end_of_the_run(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim)
    assert await runtime.wait_for_interrupt(claim.run_id, "call-1", timeout_s=0.05) is None
    assert await runtime.renew_lease(key, claim)
    assert not await runtime.is_cancelled(claim.run_id)
    told = await another.inject_message(key, claim.run_id, YES)
    assert told is InjectAnswer.INJECTED


@pytest.mark.proves("R4.9")
async def test_who_takes_over_finds_the_answer(runtime: Runtime, another: Runtime) -> None:
    run_id = a_run()
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(runtime.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(runtime, run_id, "call-1")
        wait.cancel()  # Its executor is gone; the question is not.
    assert await another.resolve_interrupt(run_id, "call-1", YES) is ResolveAnswer.RESOLVED
    assert await another.create_interrupt(run_id, "call-1")
    assert await another.wait_for_interrupt(run_id, "call-1") == YES


@pytest.mark.proves("R4.15")
async def test_the_questions_of_a_run_are_bounded(place: Place) -> None:
    run_id = a_run()
    async with place.opened(RuntimeLimits(interrupt_count_max=2)) as store:
        assert await store.create_interrupt(run_id, "a")
        assert await store.create_interrupt(run_id, "b")
        assert await store.create_interrupt(run_id, "a")  # It is there already.
        assert not await store.create_interrupt(run_id, "c")
        assert await store.wait_for_interrupt(run_id, "c") is None
        assert await store.create_interrupt(a_run(), "c")


@pytest.mark.proves("R4.9")
async def test_a_hint_lets_who_waits_look_again_and_answers_nothing(
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
