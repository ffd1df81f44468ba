"""The cancel flag, the message queue, and hints to other instances (R4.10, R4.11, R4.15)."""

import asyncio

import pytest

from headway.core.document import Document
from headway.ports.runtime_store import Hint, InjectAnswer, Phase, RuntimeLimits
from tests.runtime.scenes import (
    Place,
    Runtime,
    a_claim,
    a_key,
    is_empty,
    text,
    until,
)


@pytest.mark.proves("R4.10")
async def test_a_cancel_is_seen_by_all(runtime: Runtime, another: Runtime) -> None:
    run_id = a_claim().run_id
    assert not await runtime.is_cancelled(run_id)
    await another.request_cancel(run_id)
    await another.request_cancel(run_id)
    assert await runtime.is_cancelled(run_id)
    assert not await runtime.is_cancelled(a_claim().run_id)


@pytest.mark.proves("R4.11")
async def test_all_messages_are_drained_at_once_in_order(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim)
    odd = [Document('{"text":"ё 🚂\\n"}'), Document('""'), Document("x" * 100_000)]
    sent = [text(number) for number in range(20)] + odd
    for message in sent:
        assert await another.inject_message(key, claim.run_id, message) is InjectAnswer.INJECTED
    assert await runtime.drain_messages(claim) == tuple(sent)
    assert await runtime.drain_messages(claim) == ()


@pytest.mark.proves("R4.11")
async def test_no_message_is_drained_twice_and_none_is_lost(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim)
    drained: list[Document] = []

    async def drain() -> None:
        drained.extend(await runtime.drain_messages(claim))

    sent = [text(number) for number in range(100)]
    async with asyncio.TaskGroup() as group:
        for message in sent:
            group.create_task(another.inject_message(key, claim.run_id, message))
            group.create_task(drain())
    await drain()
    assert sorted(drained) == sorted(sent)


@pytest.mark.proves("R4.11")
async def test_only_the_interactive_claim_drains(runtime: Runtime, another: Runtime) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim)
    await another.inject_message(key, claim.run_id, text(1))
    assert await another.drain_messages(a_claim(claim.run_id)) == ()
    assert await another.drain_messages(a_claim()) == ()
    assert await runtime.drain_messages(claim) == (text(1),)


@pytest.mark.proves("R4.11")
async def test_why_a_message_is_refused(runtime: Runtime, another: Runtime) -> None:
    key, claim = a_key(), a_claim()

    async def inject() -> InjectAnswer:
        return await another.inject_message(key, claim.run_id, text(1))

    assert await inject() is InjectAnswer.NO_ACTIVE_RUN
    await runtime.acquire_lease(key, claim)
    assert await inject() is InjectAnswer.NOT_STREAMING
    await runtime.mark_interactive(key, claim)
    assert await inject() is InjectAnswer.INJECTED
    await runtime.mark_interactive(key, claim, Phase.COMPACTING)
    assert await inject() is InjectAnswer.COMPACTING
    await runtime.mark_interactive(key, claim)
    assert await inject() is InjectAnswer.INJECTED
    other = await another.inject_message(key, a_claim().run_id, text(1))
    assert other is InjectAnswer.NO_ACTIVE_RUN  # Of this key another run is active.
    assert await runtime.clear_interactive(key, claim) == (text(1), text(1))
    assert await inject() is InjectAnswer.NOT_STREAMING
    await runtime.release_lease(key, claim)
    assert await inject() is InjectAnswer.NO_ACTIVE_RUN


@pytest.mark.proves("R4.15")
async def test_the_queue_is_bounded(place: Place) -> None:
    key, claim = a_key(), a_claim()
    async with place.opened(RuntimeLimits(message_count_max=3)) as store:
        await store.acquire_lease(key, claim)
        await store.mark_interactive(key, claim)
        answers = await asyncio.gather(
            *(store.inject_message(key, claim.run_id, text(number)) for number in range(10))
        )
        assert answers.count(InjectAnswer.INJECTED) == 3
        assert answers.count(InjectAnswer.FULL) == 7
        assert len(await store.drain_messages(claim)) == 3
        again = await store.inject_message(key, claim.run_id, text(1))
        assert again is InjectAnswer.INJECTED


@pytest.mark.proves("R4.11")
async def test_what_comes_as_the_loop_ends_is_given_back_or_refused(
    runtime: Runtime, another: Runtime
) -> None:
    """Whatever was accepted is drained or returned; nothing is left in a queue without a reader."""
    for _ in range(20):
        key, claim = a_key(), a_claim()
        await runtime.acquire_lease(key, claim)
        await runtime.mark_interactive(key, claim)
        injected, left, late = await asyncio.gather(
            another.inject_message(key, claim.run_id, text(1)),
            runtime.clear_interactive(key, claim),
            another.inject_message(key, claim.run_id, text(2)),
        )
        accepted = [injected, late].count(InjectAnswer.INJECTED)
        assert len(left) == accepted
        assert await runtime.drain_messages(claim) == ()


@pytest.mark.proves("R4.11")
async def test_who_takes_over_gets_what_was_accepted(runtime: Runtime, another: Runtime) -> None:
    key, old = a_key(), a_claim()
    new = a_claim(old.run_id)
    await runtime.acquire_lease(key, old)
    await runtime.mark_interactive(key, old)
    await another.inject_message(key, old.run_id, text(1))
    await runtime.release_lease(key, old)
    await another.acquire_lease(key, new)
    await another.mark_interactive(key, new)
    assert await runtime.drain_messages(old) == ()
    assert await another.drain_messages(new) == (text(1),)


async def test_other_instances_learn_what_happens_to_a_run(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    run_id = claim.run_id
    heard: list[Hint] = []
    stop = await runtime.watch(run_id, heard.append)
    await another.acquire_lease(key, claim)
    await another.mark_interactive(key, claim)
    await another.create_interrupt(run_id, "call-1")
    await another.inject_message(key, run_id, text(1))
    await another.resolve_interrupt(run_id, "call-1", text(1))
    await another.request_cancel(run_id)
    await another.publish_hint(run_id, Hint.RESYNC)
    await until(lambda: len(heard) == 4, what="all hints have come")
    assert heard == [Hint.MESSAGE, Hint.ANSWER, Hint.CANCEL, Hint.RESYNC]
    await another.publish_hint(a_claim().run_id, Hint.CANCEL)  # Of a run that nobody watches.
    stop()
    stop()
    again: list[Hint] = []
    await runtime.watch(run_id, again.append)
    await another.publish_hint(run_id, Hint.CANCEL)
    await until(lambda: Hint.CANCEL in again, what="only who still watches is told")
    assert len(heard) == 4


async def test_refused_words_are_no_hints(runtime: Runtime, another: Runtime) -> None:
    key, claim = a_key(), a_claim()
    heard: list[Hint] = []
    await runtime.watch(claim.run_id, heard.append)
    await another.inject_message(key, claim.run_id, text(1))
    await another.resolve_interrupt(claim.run_id, "call-1", text(1))
    await another.publish_hint(claim.run_id, Hint.RESYNC)
    await until(lambda: bool(heard), what="the hint has come")
    assert heard == [Hint.RESYNC]


@pytest.mark.proves("I8")
@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_after_the_clean_up_memory_holds_nothing(runtime: Runtime) -> None:
    key, claim = a_key(), a_claim()
    stop = await runtime.watch(claim.run_id, lambda _hint: None)
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim)
    await runtime.inject_message(key, claim.run_id, text(1))
    await runtime.create_interrupt(claim.run_id, "open")
    await runtime.wait_for_interrupt(claim.run_id, "late", timeout_s=0)
    await runtime.request_cancel(claim.run_id)
    stop()
    await runtime.cleanup_execution(key, claim)
    assert is_empty(runtime)  # type: ignore[arg-type]
    assert len(asyncio.all_tasks()) == 1
