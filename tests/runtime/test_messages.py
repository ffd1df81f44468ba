"""The cancel flag, the message queue, and hints to other instances (R4.10, R4.11, R4.15)."""

import asyncio

import pytest

from headway.core.document import Document
from headway.runtime import Hint, InjectAnswer, Phase, RuntimeLimits
from tests.runtime.scenes import (
    Runtime,
    RuntimeTarget,
    a_claim,
    a_key,
    is_empty,
    text,
    until,
)


@pytest.mark.proves("R4.10")
async def test_cancel_is_visible_to_every_instance(runtime: Runtime, another: Runtime) -> None:
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
async def test_only_the_interactive_claim_can_drain_messages(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim)
    await another.inject_message(key, claim.run_id, text(1))
    assert await another.drain_messages(a_claim(claim.run_id)) == ()
    assert await another.drain_messages(a_claim()) == ()
    assert await runtime.drain_messages(claim) == (text(1),)


@pytest.mark.proves("R4.11")
async def test_refused_message_returns_the_reason(runtime: Runtime, another: Runtime) -> None:
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
    assert other is InjectAnswer.NO_ACTIVE_RUN  # Another run of the key is active.
    assert await runtime.clear_interactive(key, claim) == (text(1), text(1))
    assert await inject() is InjectAnswer.NOT_STREAMING
    await runtime.release_lease(key, claim)
    assert await inject() is InjectAnswer.NO_ACTIVE_RUN


@pytest.mark.proves("R4.15")
async def test_message_queue_is_limited(target: RuntimeTarget) -> None:
    key, claim = a_key(), a_claim()
    async with target.open(RuntimeLimits(message_count_max=3)) as store:
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
async def test_message_sent_as_the_loop_ends_is_returned_or_refused(
    runtime: Runtime, another: Runtime
) -> None:
    """Every accepted message is drained or returned; none stays in a queue without a reader."""
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
async def test_next_claim_receives_the_accepted_messages(
    runtime: Runtime, another: Runtime
) -> None:
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


async def test_other_instances_receive_hints_about_a_run(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    run_id = claim.run_id
    hints: list[Hint] = []
    stop = await runtime.watch(run_id, hints.append)
    await another.acquire_lease(key, claim)
    await another.mark_interactive(key, claim)
    await another.create_interrupt(run_id, "call-1")
    await another.inject_message(key, run_id, text(1))
    await another.resolve_interrupt(run_id, "call-1", text(1))
    await another.request_cancel(run_id)
    await another.publish_hint(run_id, Hint.RESYNC)
    await until(lambda: len(hints) == 4, what="all hints are received")
    assert hints == [Hint.MESSAGE, Hint.ANSWER, Hint.CANCEL, Hint.RESYNC]
    await another.publish_hint(a_claim().run_id, Hint.CANCEL)  # A run without a watcher.
    stop()
    stop()
    again: list[Hint] = []
    await runtime.watch(run_id, again.append)
    await another.publish_hint(run_id, Hint.CANCEL)
    await until(lambda: Hint.CANCEL in again, what="the current watcher receives the hint")
    assert len(hints) == 4


async def test_refused_calls_send_no_hints(runtime: Runtime, another: Runtime) -> None:
    key, claim = a_key(), a_claim()
    hints: list[Hint] = []
    await runtime.watch(claim.run_id, hints.append)
    await another.inject_message(key, claim.run_id, text(1))
    await another.resolve_interrupt(claim.run_id, "call-1", text(1))
    await another.publish_hint(claim.run_id, Hint.RESYNC)
    await until(lambda: bool(hints), what="the hint is received")
    assert hints == [Hint.RESYNC]


@pytest.mark.proves("I8")
@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_memory_store_is_empty_after_cleanup(runtime: Runtime) -> None:
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
