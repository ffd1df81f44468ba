"""The registry of active runs (R3.11)."""

import asyncio

import pytest

from headway.lanes import ActiveRunRegistry, QueueMessageRefusal
from tests.lanes.scenes import log_records, settle


class FakeRun:
    def __init__(self, *, is_streaming: bool = True, is_compacting: bool = False) -> None:
        self.is_streaming = is_streaming
        self.is_compacting = is_compacting
        self.takes = True
        self.messages: list[str] = []
        self.abort_count = 0

    def queue_message(self, text: str) -> bool:
        if self.takes:
            self.messages.append(text)
        return self.takes

    def abort(self) -> None:
        self.abort_count += 1


class BrokenRun(FakeRun):
    def queue_message(self, text: str) -> bool:
        raise RuntimeError(text)


@pytest.fixture
def runs() -> ActiveRunRegistry:
    return ActiveRunRegistry()


@pytest.mark.proves("R3.11")
def test_registering_a_run_logs_that_it_started_or_replaced_another(
    runs: ActiveRunRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first, second = FakeRun(), FakeRun()
    runs.register("s", first)
    runs.register("s", second)
    runs.clear("s", second)
    runs.register("s", first)
    events = [vars(record)["event"] for record in caplog.records]
    assert events == ["run_started", "run_replaced", "run_ended", "run_started"]
    assert {vars(record)["session_id"] for record in caplog.records} == {"s"}


@pytest.mark.proves("R3.11", "I26")
def test_registering_returns_the_replaced_run_so_that_its_messages_can_be_passed_on(
    runs: ActiveRunRegistry,
) -> None:
    old, new = FakeRun(), FakeRun()
    assert runs.register("s", old) is None
    assert runs.queue_message("s", "hello")
    replaced = runs.register("s", new)
    assert replaced is old
    for text in old.messages:
        assert runs.queue_message("s", text)
    assert new.messages == ["hello"]


@pytest.mark.proves("R3.11")
def test_cleanup_of_an_old_run_cannot_remove_a_new_run(runs: ActiveRunRegistry) -> None:
    old, new = FakeRun(), FakeRun()
    runs.register("s", old)
    runs.register("s", new)
    assert runs.clear("s", old) is False
    assert runs.get("s") is new
    assert runs.clear("s", new) is True
    assert runs.get("s") is None
    assert runs.clear("s", new) is False


@pytest.mark.proves("R3.11")
def test_message_is_queued_into_a_streaming_run(runs: ActiveRunRegistry) -> None:
    run = FakeRun()
    runs.register("s", run)
    answer = runs.queue_message("s", "hello")
    assert answer
    assert (answer.refusal, run.messages) == (None, ["hello"])


@pytest.mark.proves("R3.11")
@pytest.mark.parametrize(
    ("run", "refusal"),
    [
        (None, "no_active_run"),
        (FakeRun(is_streaming=False), "not_streaming"),
        (FakeRun(is_compacting=True), "compacting"),
        (FakeRun(is_streaming=False, is_compacting=True), "not_streaming"),
    ],
)
def test_message_that_cannot_be_queued_returns_the_reason(
    runs: ActiveRunRegistry, run: FakeRun | None, refusal: str
) -> None:
    if run is not None:
        runs.register("s", run)
    answer = runs.queue_message("s", "hello")
    assert not answer
    assert answer.refusal == refusal
    assert run is None or run.messages == []


@pytest.mark.proves("R3.11")
def test_sender_gets_a_refusal_if_the_run_refuses_its_message_or_raises(
    runs: ActiveRunRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = FakeRun()
    refusing.takes = False
    for run in (refusing, BrokenRun()):
        runs.register("s", run)
        answer = runs.queue_message("s", "hello")
        assert (bool(answer), answer.refusal) == (False, QueueMessageRefusal.REFUSED)
    assert len(log_records(caplog, "run_message_failed")) == 1


@pytest.mark.proves("R3.11")
def test_aborted_run_is_active_until_it_is_cleared(
    runs: ActiveRunRegistry,
) -> None:
    run = FakeRun()
    assert runs.abort("s") is False
    runs.register("s", run)
    assert runs.abort("s") is True
    assert (run.abort_count, runs.get("s")) == (1, run)


@pytest.mark.proves("R3.11")
async def test_end_of_a_run_wakes_every_waiter(
    runs: ActiveRunRegistry,
) -> None:
    run, other = FakeRun(), FakeRun()
    runs.register("s", run)
    runs.register("t", other)
    waits = [asyncio.create_task(runs.wait_for_end("s")) for _ in range(3)]
    elsewhere = asyncio.create_task(runs.wait_for_end("t"))
    await settle()
    assert not any(wait.done() for wait in waits)
    runs.clear("s", run)
    await settle()
    assert [wait.result() for wait in waits] == [True] * 3
    assert not elsewhere.done()
    runs.clear("t", other)
    assert await elsewhere is True
    assert runs._waiters == {}


@pytest.mark.proves("R3.11")
async def test_wait_without_an_active_run_returns_at_once(runs: ActiveRunRegistry) -> None:
    assert await runs.wait_for_end("s") is True


@pytest.mark.proves("R3.11")
async def test_wait_that_times_out_returns_false_after_at_least_100_ms(
    runs: ActiveRunRegistry,
) -> None:
    runs.register("s", FakeRun())
    began_s = asyncio.get_running_loop().time()
    assert await runs.wait_for_end("s", timeout_s=0) is False
    assert 0.09 < asyncio.get_running_loop().time() - began_s < 5
    assert runs._waiters == {}, "a waiter that timed out is removed"


@pytest.mark.proves("R3.11")
async def test_wait_lasts_15_seconds_by_default(
    runs: ActiveRunRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays: list[float] = []
    timeout = asyncio.timeout

    def record_delay(delay: float) -> asyncio.Timeout:
        delays.append(delay)
        return timeout(0)

    monkeypatch.setattr("headway.lanes.registry.asyncio.timeout", record_delay)
    runs.register("s", FakeRun())
    assert await runs.wait_for_end("s") is False
    assert await runs.wait_for_end("s", timeout_s=3) is False
    assert delays == [15.0, 3]


@pytest.mark.proves("R3.11")
async def test_replaced_run_does_not_end_the_wait(runs: ActiveRunRegistry) -> None:
    old, new = FakeRun(), FakeRun()
    runs.register("s", old)
    wait = asyncio.create_task(runs.wait_for_end("s"))
    await settle()
    runs.register("s", new)
    runs.clear("s", old)
    await settle()
    assert not wait.done()
    runs.clear("s", new)
    assert await wait is True


@pytest.mark.proves("R3.11")
async def test_cancelled_waiter_leaves_the_others_waiting(
    runs: ActiveRunRegistry,
) -> None:
    run = FakeRun()
    runs.register("s", run)
    cancelled, remaining = (asyncio.create_task(runs.wait_for_end("s")) for _ in range(2))
    await settle()
    cancelled.cancel()
    await settle()
    runs.clear("s", run)
    assert await remaining is True
    assert cancelled.cancelled()
