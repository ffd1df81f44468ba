"""One contract for queueing, whether the work survives its process or not (R3)."""

import asyncio

import pytest

from tests.queueing.queues import Cleared, Queue


@pytest.mark.proves("R3.13")
async def test_ten_messages_to_one_session_are_answered_in_order(queue: Queue) -> None:
    names = [f"message {number}" for number in range(10)]
    await queue.stage.release(*names)
    answers = [await queue.send("ann", name) for name in names]
    assert await asyncio.gather(*answers) == [f"{name} done" for name in names]
    assert queue.stage.begun == queue.stage.ended == names


@pytest.mark.proves("R3.13")
async def test_two_sessions_run_at_once_and_neither_blocks_the_other(queue: Queue) -> None:
    first = await queue.send("ann", "ann 1")
    behind = await queue.send("ann", "ann 2")
    other = await queue.send("bob", "bob 1")
    await queue.stage.wait_until_begun("ann 1", "bob 1")
    await queue.stage.release("bob 1")
    assert await other == "bob 1 done", "ann's message is still being answered"
    await queue.settle()
    assert "ann 2" not in queue.stage.begun
    await queue.stage.release("ann 1", "ann 2")
    assert await first == "ann 1 done"
    assert await behind == "ann 2 done"


@pytest.mark.proves("R3.3")
async def test_global_lane_starts_sessions_in_the_order_of_arrival(queue: Queue) -> None:
    await queue.set_limit(1)
    answers = [await queue.send(name, name) for name in ("ann", "bob", "cid")]
    await queue.stage.wait_until_begun("ann")
    await queue.settle()
    assert queue.stage.begun == ["ann"]
    await queue.stage.release("ann", "bob", "cid")
    await asyncio.gather(*answers)
    assert queue.stage.begun == ["ann", "bob", "cid"]


@pytest.mark.proves("R3.3")
async def test_a_long_backlog_of_one_session_does_not_delay_another(queue: Queue) -> None:
    await queue.set_limit(1)
    answers = [await queue.send("ann", f"ann {number}") for number in range(5)]
    answers.append(await queue.send("bob", "bob"))
    await queue.stage.release(*(f"ann {number}" for number in range(5)), "bob")
    await asyncio.gather(*answers)
    assert queue.stage.begun.index("bob") == 1


@pytest.mark.proves("R3.5")
async def test_the_next_work_starts_after_a_failure_as_after_a_success(queue: Queue) -> None:
    await queue.set_limit(1)
    bad = await queue.send("ann", "bad")
    behind = await queue.send("ann", "behind")
    other = await queue.send("bob", "other")
    await queue.stage.release("bad", "behind", "other")
    with pytest.raises(ValueError, match=r"^bad$"):
        await bad
    assert (await behind, await other) == ("behind done", "other done")


@pytest.mark.proves("R3.10")
async def test_a_raised_limit_applies_at_once(queue: Queue) -> None:
    await queue.set_limit(1)
    answers = [await queue.send(name, name) for name in ("ann", "bob", "cid")]
    await queue.stage.wait_until_begun("ann")
    await queue.set_limit(2)
    await queue.stage.wait_until_begun("ann", "bob")
    await queue.settle()
    assert "cid" not in queue.stage.begun
    await queue.stage.release("ann", "bob", "cid")
    await asyncio.gather(*answers)


@pytest.mark.proves("R3.10")
async def test_a_lowered_limit_interrupts_no_active_work(queue: Queue) -> None:
    answers = [await queue.send(name, name) for name in ("ann", "bob", "cid")]
    await queue.stage.wait_until_begun("ann", "bob")
    await queue.stage.wait_until_begun("cid")
    await queue.set_limit(1)
    answers.append(await queue.send("dan", "dan"))
    await queue.stage.release("ann", "bob")
    await asyncio.gather(*answers[:2])
    await queue.settle()
    assert "dan" not in queue.stage.begun, "one is still active, and that is the limit"
    await queue.stage.release("cid", "dan")
    assert await answers[3] == "dan done"
    assert await answers[2] == "cid done"


@pytest.mark.proves("R3.12")
async def test_a_limit_of_0_pauses_and_raising_it_runs_the_backlog(queue: Queue) -> None:
    await queue.set_limit(0)
    await queue.stage.release("ann", "bob")
    answers = [await queue.send(name, name) for name in ("ann", "bob")]
    await queue.settle()
    assert queue.stage.begun == []
    await queue.set_limit(1)
    await asyncio.gather(*answers)
    assert queue.stage.begun == ["ann", "bob"]


@pytest.mark.proves("R3.7")
async def test_clear_removes_waiting_work_and_keeps_active_work(queue: Queue) -> None:
    await queue.set_limit(1)
    active = await queue.send("ann", "active")
    await queue.stage.wait_until_begun("active")
    waiting = [await queue.send(name, name) for name in ("bob", "cid")]
    assert await queue.clear() == 2
    for answer in waiting:
        with pytest.raises(
            Cleared, match=r"^lane 'gate' was cleared before this (run|task) started$"
        ):
            await answer
    later = await queue.send("dan", "later")
    await queue.stage.release("active", "later")
    assert (await active, await later) == ("active done", "later done")
    assert queue.stage.begun == ["active", "later"]
    assert await queue.clear() == 0


@pytest.mark.proves("R3.9")
async def test_a_drain_waits_for_work_that_was_active_at_the_call(queue: Queue) -> None:
    sent = [("ann", "ann"), ("bob", "bob"), ("ann", "queued")]
    answers = [await queue.send(session, name) for session, name in sent]
    await queue.stage.wait_until_begun("ann", "bob")
    draining = asyncio.create_task(queue.wait_for_active(60))
    await queue.settle()
    await queue.stage.release("ann")
    await queue.stage.wait_until_begun("queued")
    await queue.settle()
    assert not draining.done(), "bob is still active"
    await queue.stage.release("bob")
    assert await draining is True, "work that was queued then is not waited for"
    await queue.stage.release("queued")
    await asyncio.gather(*answers)


@pytest.mark.proves("R3.9", "R3.12")
@pytest.mark.parametrize("timeout_s", [0, -1, 0.01])
async def test_a_drain_that_takes_too_long_returns_false(queue: Queue, timeout_s: float) -> None:
    assert await queue.wait_for_active(timeout_s) is True
    answer = await queue.send("ann", "ann")
    await queue.stage.wait_until_begun("ann")
    assert await queue.wait_for_active(timeout_s) is False
    await queue.stage.release("ann")
    assert await answer == "ann done"
