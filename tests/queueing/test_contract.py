"""One contract for queueing, whether the work survives its process or not (R3)."""

import asyncio

import pytest

from tests.queueing.queues import Queue, Sent


@pytest.mark.proves("R3.13")
async def test_ten_messages_to_one_session_are_answered_in_order(queue: Queue) -> None:
    names = [f"message {number}" for number in range(10)]
    await queue.stage.let_go(*names)
    answers = [await queue.send("ann", name) for name in names]
    assert await asyncio.gather(*answers) == [f"{name} done" for name in names]
    assert queue.stage.begun == queue.stage.ended == names


@pytest.mark.proves("R3.13")
async def test_two_sessions_run_at_once_and_neither_blocks_the_other(queue: Queue) -> None:
    first = await queue.send("ann", "ann 1")
    behind = await queue.send("ann", "ann 2")
    other = await queue.send("bob", "bob 1")
    await queue.stage.has_begun("ann 1", "bob 1")
    await queue.stage.let_go("bob 1")
    assert await other == "bob 1 done", "ann's message is still being answered"
    await queue.rest()
    assert "ann 2" not in queue.stage.begun
    await queue.stage.let_go("ann 1", "ann 2")
    assert await first == "ann 1 done"
    assert await behind == "ann 2 done"


@pytest.mark.proves("R3.3")
async def test_sessions_together_go_through_the_global_lane_in_order(queue: Queue) -> None:
    await queue.set_limit(1)
    answers = [await queue.send(name, name) for name in ("ann", "bob", "cid")]
    await queue.stage.has_begun("ann")
    await queue.rest()
    assert queue.stage.begun == ["ann"]
    await queue.stage.let_go("ann", "bob", "cid")
    await asyncio.gather(*answers)
    assert queue.stage.begun == ["ann", "bob", "cid"]


@pytest.mark.proves("R3.3")
async def test_a_long_backlog_of_one_session_does_not_hold_up_another(queue: Queue) -> None:
    await queue.set_limit(1)
    answers = [await queue.send("ann", f"ann {number}") for number in range(5)]
    answers.append(await queue.send("bob", "bob"))
    await queue.stage.let_go(*(f"ann {number}" for number in range(5)), "bob")
    await asyncio.gather(*answers)
    assert queue.stage.begun.index("bob") == 1


@pytest.mark.proves("R3.5")
async def test_a_failure_starts_the_next_exactly_as_a_success_does(queue: Queue) -> None:
    await queue.set_limit(1)
    bad = await queue.send("ann", "bad")
    behind = await queue.send("ann", "behind")
    other = await queue.send("bob", "other")
    await queue.stage.let_go("bad", "behind", "other")
    with pytest.raises(ValueError, match=r"^bad$"):
        await bad
    assert (await behind, await other) == ("behind done", "other done")


@pytest.mark.proves("R3.10")
async def test_a_raised_limit_counts_at_once(queue: Queue) -> None:
    await queue.set_limit(1)
    answers = [await queue.send(name, name) for name in ("ann", "bob", "cid")]
    await queue.stage.has_begun("ann")
    await queue.set_limit(2)
    await queue.stage.has_begun("ann", "bob")
    await queue.rest()
    assert "cid" not in queue.stage.begun
    await queue.stage.let_go("ann", "bob", "cid")
    await asyncio.gather(*answers)


@pytest.mark.proves("R3.10")
async def test_a_lowered_limit_interrupts_nobody(queue: Queue) -> None:
    answers = [await queue.send(name, name) for name in ("ann", "bob", "cid")]
    await queue.stage.has_begun("ann", "bob")
    await queue.stage.has_begun("cid")
    await queue.set_limit(1)
    answers.append(await queue.send("dan", "dan"))
    await queue.stage.let_go("ann", "bob")
    await asyncio.gather(*answers[:2])
    await queue.rest()
    assert "dan" not in queue.stage.begun, "one is still at work, and that is the limit"
    await queue.stage.let_go("cid", "dan")
    assert await answers[3] == "dan done"
    assert await answers[2] == "cid done"


@pytest.mark.proves("R3.12")
async def test_a_limit_of_0_pauses_and_raising_it_runs_the_backlog(queue: Queue) -> None:
    await queue.set_limit(0)
    await queue.stage.let_go("ann", "bob")
    answers = [await queue.send(name, name) for name in ("ann", "bob")]
    await queue.rest()
    assert queue.stage.begun == []
    await queue.set_limit(1)
    await asyncio.gather(*answers)
    assert queue.stage.begun == ["ann", "bob"]


@pytest.mark.proves("R3.7")
async def test_clear_sends_away_what_waits_and_leaves_the_active_alone(queue: Queue) -> None:
    await queue.set_limit(1)
    active = await queue.send("ann", "active")
    await queue.stage.has_begun("active")
    waiting = [await queue.send(name, name) for name in ("bob", "cid")]
    assert await queue.clear() == 2
    for answer in waiting:
        with pytest.raises(Sent, match=r"^lane 'gate' was cleared before this (run|task) started$"):
            await answer
    later = await queue.send("dan", "later")
    await queue.stage.let_go("active", "later")
    assert (await active, await later) == ("active done", "later done")
    assert queue.stage.begun == ["active", "later"]
    assert await queue.clear() == 0


@pytest.mark.proves("R3.9")
async def test_a_drain_waits_for_what_was_active_when_it_was_called(queue: Queue) -> None:
    sent = [("ann", "ann"), ("bob", "bob"), ("ann", "queued")]
    answers = [await queue.send(session, name) for session, name in sent]
    await queue.stage.has_begun("ann", "bob")
    draining = asyncio.create_task(queue.wait_for_active(60))
    await queue.rest()
    await queue.stage.let_go("ann")
    await queue.stage.has_begun("queued")
    await queue.rest()
    assert not draining.done(), "bob is still active"
    await queue.stage.let_go("bob")
    assert await draining is True, "what was queued then is not waited for"
    await queue.stage.let_go("queued")
    await asyncio.gather(*answers)


@pytest.mark.proves("R3.9", "R3.12")
@pytest.mark.parametrize("timeout_s", [0, -1, 0.01])
async def test_a_drain_that_takes_too_long_answers_false(queue: Queue, timeout_s: float) -> None:
    assert await queue.wait_for_active(timeout_s) is True
    answer = await queue.send("ann", "ann")
    await queue.stage.has_begun("ann")
    assert await queue.wait_for_active(timeout_s) is False
    await queue.stage.let_go("ann")
    assert await answer == "ann done"
