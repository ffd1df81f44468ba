"""The driver of a flow task, from its claim until it parks, ends, or is taken away.

What happened goes into the pure engine; what comes of it is stored in one commit; only then is
anything done about it. So a crash repeats the calls whose end was not stored, and nothing else. A
commit that may not have landed is no harm: the state is read again, and what happened since is let
happen once more.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Never

from headway.core.batch_state import InboxItem
from headway.core.command.flow.advance import Advanced, AdvanceFlow, End, Go, ParkFor
from headway.core.command.flow.load_task import HearNews, KeptTask, LoadTask, News
from headway.core.document import NULL, encode_document
from headway.core.errors import InfrastructureError, InvalidInput, StoreClosed, TooLarge
from headway.core.flow.engine.inputs import (
    Aborted,
    Ended,
    Happened,
    ServiceOffered,
    Signalled,
    Woken,
)
from headway.core.flow.engine.records import CHILD_ENDED, SIGNAL
from headway.core.flow.engine.state import Commit, State
from headway.core.flow.engine.step import begin, step, wake_at
from headway.core.flow.engine.stored_state import load_state
from headway.core.ids import SECOND, Instant, RunId
from headway.core.run.status import RunStatus
from headway.log import event_log
from headway.ports.flow_reader import FlowReader
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.context.run_context import RunContext
from headway.services.flow.child_tasks import ChildTasks
from headway.services.flow.definition_cache import Definitions
from headway.services.flow.flow_clock import FlowClock
from headway.services.flow.functions import Functions
from headway.services.flow.node_calls import Bell, Calls
from headway.services.flow.step_writer import Ledger, stored
from headway.services.flow.waiting_nodes import LEFT_TO_OTHERS, waited_for
from headway.services.flow.workers import Workers
from headway.services.refused_writes import Refusals
from headway.services.retrying import AGAIN_S, persistently

SLOT_KEPT_US: Final = SECOND
"""Who waits for less stays: to park and be claimed again costs more."""
CHILD_LOOK_US: Final = 10 * SECOND
"""How often a task that waits for its children looks at them, should nobody tell it."""
WORKER_LOOK_US: Final = SECOND
"""How often a driver checks for a worker that a branch awaits while others are in flight."""

log = event_log(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every driver of a process works with."""

    store: Store
    runs: RunReader
    flows: FlowReader
    clock: FlowClock
    definitions: Definitions
    functions: Functions
    workers: Workers

    async def drive(self, context: RunContext, /, **_params: Any) -> AdvanceFlow:
        """The job of all flow tasks. Its last step says how it ends, or that it is parked."""
        return await Drive(context, self).run()


class Drive:
    """One execution of one task."""

    def __init__(self, context: RunContext, desk: Desk) -> None:
        self._context = context
        self._desk = desk
        self._run_id: RunId = context.run_id
        self._news = context.execution.news = Bell()
        # Services run in workers, so only a local function could cause a stop of this process.
        context.execution.has_progressed = True
        pin: dict[str, Any] = context.checkpoint or {}
        self._pin = pin
        claim = context.execution.claim
        self._ledger = Ledger(claim, pin.get("parent_id"))
        self._claim = claim
        self._children = ChildTasks(
            claim, desk.store, desk.runs, desk.definitions, is_child=bool(pin.get("parent_id"))
        )
        self._calls = Calls(context, desk, self._children, self._news, place_of=self._place_of)
        self._stepped: list[Ended] = []
        """In the state, and not stored yet."""
        self._taken: list[int] = []
        """Of the inbox: in the state, and not stored yet."""
        self._read_seq = 0
        self._has_unread = False
        self._begun_at: Instant | None = None
        """Since when its first node may be under way, if nothing of that is stored."""

    async def run(self) -> AdvanceFlow:
        is_kept = self._pin.get("is_kept") or self._context.execution.claimed.unread_count
        is_first = self._context.generation == 1
        await self._load(is_new=is_first and not is_kept)
        if is_first:
            self._begun_at = None  # Nobody has reached a node before.
        async with asyncio.TaskGroup() as group:
            self._calls.begin(group)
            try:
                return await self._walk()
            finally:
                self._calls.end()

    # The state.

    async def _load(self, *, is_new: bool = False) -> None:
        pin = self._pin
        if "flow" not in pin:
            raise ValueError("a flow task is started by `flows.start`, not as a job")
        definitions = self._desk.definitions
        flow = await persistently(lambda: definitions.flow(pin["flow"], pin["version"]))
        parts = None
        rows: Sequence[Any] = ()
        if not is_new:
            self._calls.may_have_children = True
            kept = await persistently(self._kept)
            self._desk.clock.heard(kept.now)
            self._ledger.load(kept)
            self._has_unread = bool(kept.unread)
            parts, rows = stored(kept), kept.rows
        self._taken.clear()
        self._read_seq = 0
        # Secrets stay sealed in all that is kept of a task; only who is called is given them.
        params = json.loads(self._context.execution.claimed.params)
        self._state: State = (
            begin(flow, params) if parts is None else load_state(flow, params, parts, rows)
        )
        self._begun_at = self._context.execution.claimed.started_at if parts is None else None

    async def _kept(self) -> KeptTask:
        kept = await self._desk.store.apply(LoadTask(self._claim))
        return kept or await _told_soon()

    async def _walk(self) -> AdvanceFlow:
        happened: Sequence[Happened] = await self._resumed()
        refusals = Refusals(self._desk.store, self._claim)
        while True:  # Until it is over, or parks, or its execution is ended.
            try:
                commit = self._step(happened)
                last = self._last(commit)
                if last is not None:
                    return last
                await self._keep(commit)
            except InvalidInput as error:
                if isinstance(happened[0], Aborted):
                    raise
                await self._load()
                code = "too_large" if isinstance(error, TooLarge) else "invalid_state"
                happened = [Aborted(f"{code}: {error}")]
                continue
            except StoreClosed:
                raise
            except InfrastructureError as error:
                log.warning("step_not_stored", extra={"reason": str(error)})
                await asyncio.sleep(AGAIN_S)
                await self._load()
                self._calls.keep({one.call_id for one in self._state.frames[-1].open.values()})
                if await refusals.is_final(error):
                    happened = [Aborted(f"not_stored: {error}")]
                    continue
                stepped = list(self._stepped)  # To which those of the inbox are added.
                happened = [*await self._resumed(), *stepped]
                continue
            refusals.forget()
            may_stay = commit.wake_at is None
            await self._calls.perform(commit.commands, stepped=self._stepped, may_stay=may_stay)
            self._stepped.clear()
            happened = await self._next(commit.wake_at)
            if not happened:
                return self._parked(Commit())

    def _step(self, happened: Sequence[Happened]) -> Commit:
        """Let all of it happen, for one commit."""
        now = self._desk.clock.now()
        if len(happened) == 1:
            return step(self._state, happened[0], now)
        merged = Commit(is_changed=False)
        for one in happened:
            commit = step(self._state, one, now)
            merged.wake_at = commit.wake_at
            if not commit.is_changed:
                continue
            merged.is_changed = True
            merged.rows += commit.rows
            merged.commands += commit.commands
            merged.shared_keys |= commit.shared_keys
            merged.is_inner_changed |= commit.is_inner_changed
            merged.is_frozen_changed |= commit.is_frozen_changed
        return merged

    async def _keep(self, commit: Commit) -> None:
        """Store the step, unless whoever loads the task would come to the very same one."""
        if not self._ledger.is_news(self._state, commit):
            return
        advance = self._advance(commit, Go())
        answer = await self._desk.store.apply(advance)
        if answer is False:
            await _told_soon()
        assert isinstance(answer, Advanced)
        self._calls.has_stepped = self._context.execution.has_progressed = True
        self._ledger.landed()
        self._desk.clock.heard(answer.now)
        self._taken.clear()
        self._has_unread = answer.unread_count > 0

    def _advance(self, commit: Commit, then: Go | ParkFor | End) -> AdvanceFlow:
        cancelled = self._children.cancelled_by(commit.commands)
        return self._ledger.advance(
            self._state, commit, consumed=self._taken, cancelled=cancelled, then=then
        )

    # Its end, or its rest.

    def _last(self, commit: Commit) -> AdvanceFlow | None:
        """The step after which nobody has to hold the task, if this is one."""
        if self._state.is_over:
            return self._over(commit)
        if commit.commands or not self._is_idle():
            return None
        return self._parked(commit)

    def _is_idle(self) -> bool:
        """Whether nothing will happen soon that this execution would hear of."""
        if self._has_unread or not self._calls.is_idle:
            return False
        wakes_at = wake_at(self._state)
        if wakes_at is None or waited_for(self._state) in LEFT_TO_OTHERS:
            return True
        return wakes_at - self._desk.clock.now() > SLOT_KEPT_US

    def _over(self, commit: Commit) -> AdvanceFlow:
        state = self._state
        end = End(None, encode_document(state.shared, place="result"))
        if state.status is not RunStatus.SUCCEEDED:
            error = failure_of(state)
            end = End(encode_document(error, place="error"), NULL)
        return self._advance(commit, end)

    def _parked(self, commit: Commit) -> AdvanceFlow:
        state = self._state
        wakes_at = wake_at(state)
        if self._children.open:
            look_at = Instant(self._desk.clock.now() + CHILD_LOOK_US)
            wakes_at = look_at if wakes_at is None else min(wakes_at, look_at)
        kind = waited_for(state)
        told = encode_document(
            {"waits_for": kind, "node": state.frames[0].node.key}, place="waits_for"
        )
        parks = ParkFor(kind, wakes_at, told)
        return self._advance(commit, parks)

    def _place_of(self, call_id: str) -> dict[str, Any]:
        place: dict[str, Any] = {"node": self._state.frames[0].node.key}
        frame = self._state.frames[-1]
        if frame.branch_count > 1:
            place["branch"] = next(
                (index for index, one in frame.open.items() if one.call_id == call_id), None
            )
        return place

    # What happens next.

    async def _resumed(self) -> list[Happened]:
        """What has come in, and that somebody goes on with the task.

        All but the driver see a signal as soon as it is accepted: it goes before what the time has
        brought since. Only what has come in since the first node was begun goes after it.
        """
        signals, children = await self._inbox()
        at = self._begun_at
        first = list(takewhile(lambda one: at is None or one.at <= at, signals))
        later = signals[len(first) :]
        resumed = [*map(_signal, first), Woken(), *map(_signal, later), *children]
        return [*resumed, *await self._offers()]

    async def _next(self, wakes_at: Instant | None) -> Sequence[Happened]:
        """What has happened, as soon as anything has; nothing: the task may be parked."""
        while True:  # Until something has happened.
            self._has_unread |= self._news.stopped_ringing()
            ended = self._calls.take_ended()
            self._stepped = list(ended)
            if ended and not self._has_unread and wakes_at is None:
                return ended
            # What came in during a call goes before its end, so that the next node sees it.
            signals, children = await self._inbox()
            happened: list[Happened] = [*map(_signal, signals), *children, *ended]
            now = self._desk.clock.now()
            if wakes_at is not None and wakes_at <= now:
                happened.append(Woken())
            happened += await self._offers()
            if happened or self._is_idle():
                return happened
            look_at = wakes_at
            if self._state.frames[-1].awaited_services:
                soon = Instant(now + WORKER_LOOK_US)
                look_at = soon if wakes_at is None else min(soon, wakes_at)
            if look_at is None:
                await self._news.wait()
                continue
            try:
                async with self._desk.clock.timeout((look_at - now) / SECOND):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _offers(self) -> list[Happened]:
        """Return the awaited services that live workers offer now."""
        awaited = self._state.frames[-1].awaited_services
        if not awaited or self._state.is_over:
            return []
        offered = await persistently(lambda: self._desk.workers.offered_of(awaited))
        return [ServiceOffered(service) for service in sorted(offered)]

    async def _inbox(self) -> tuple[list[InboxItem], list[Ended]]:
        """Signals, in their order, and the ends of children."""
        if not self._has_unread:
            return [], []
        self._has_unread = False
        items = (await self._news_of()).unread
        fresh = [item for item in items if item.seq > self._read_seq]
        signals = [item for item in fresh if item.kind == SIGNAL]
        children: list[Ended] = []
        if fresh:
            self._read_seq = fresh[-1].seq
            self._taken += [item.seq for item in fresh]
        ended_ids = [RunId(json.loads(item.payload)) for item in fresh if item.kind == CHILD_ENDED]
        if ended_ids and self._children.open:
            children += self._children.ended((await self._news_of(*ended_ids)).ended)
            self._stepped += children
        return signals, children

    async def _news_of(self, *child_ids: RunId) -> News:
        news = await persistently(lambda: self._desk.store.apply(HearNews(self._claim, child_ids)))
        return news or await _told_soon()


def failure_of(state: State) -> dict[str, Any]:
    """Return the error of a failed task for its readers: the node and the cause."""
    error = {"code": state.error_code or "flow_failed", "message": state.error}
    if not state.failed_path or not state.frames[0].flow.fails_on_error:
        return error
    node = "/".join(state.failed_path)
    if not state.error_code:
        error["message"] = f"node {node!r} failed: {state.error}"
    return error | {"node": node}


async def _told_soon() -> Never:
    """It was asked to end, or is another's, and is told so soon: nothing more is done here."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


def _signal(item: InboxItem) -> Signalled:
    payload = json.loads(item.payload)
    return Signalled(payload["key"], payload["value"])
