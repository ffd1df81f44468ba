"""The children of one execution: started once, found again, and waited for."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from headway.core.command.run.child import (
    ACTIVE_CHILD_COUNT_MAX,
    CHILD_DEPTH_MAX,
    Found,
    NotRunning,
    OtherChild,
    StartChild,
    TooManyChildren,
    child_id,
)
from headway.core.command.run.submit import Submit
from headway.core.document import check_name, check_word
from headway.core.errors import ChildRefused, InvalidInput, RunNotActive, RunNotFound
from headway.core.ids import Key, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.events import Event, EventType
from headway.core.run.run import Run, RunRecord
from headway.core.run.transitions import TERMINAL
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.context.execution import Execution
from headway.services.retrying import is_set_within, persistently
from headway.services.submit.admit import admitted
from headway.services.submit.job import Job, JobFunction, encoded_params, registered_job
from headway.trace import current_trace

POLL_S: Final = 1.0
POLICIES: Final = frozenset({OnConflict.REJECT, OnConflict.ENQUEUE, OnConflict.REPLACE})


class Children:
    def __init__(
        self, execution: Execution, store: Store, runs: RunReader, jobs: Mapping[str, Job]
    ) -> None:
        self._execution = execution
        self._store = store
        self._runs = runs
        self._jobs = jobs
        self._asked: Counter[str] = Counter()
        """How often each thing was asked for by this execution."""
        self._ancestors: Sequence[Run] | None = None
        self._waits: dict[asyncio.Event, RunId] = {}
        self._looked_at_s = float("-inf")

    async def start(
        self,
        job: str | JobFunction,
        *,
        key: str | None,
        params: dict[str, Any] | None,
        name: str | None,
        on_conflict: OnConflict | str,
    ) -> RunId:
        """The child that this stands for, whether or not it is there already."""
        registered = registered_job(self._jobs, job)
        policy = check_word(OnConflict, on_conflict, place="on_conflict")
        if policy not in POLICIES:
            problem = f"a child is a run of its own; must be one of: {', '.join(sorted(POLICIES))}"
            raise InvalidInput("on_conflict", problem)
        document = encoded_params(registered, params)
        child_key = None if key is None else check_name(key, place="key")
        await self._check_family(child_key)
        claimed = self._execution.claimed
        step = self._step(name, registered.name, child_key or "", document)
        run_id = child_id(claimed.run_id, step, claimed.attempt)
        submission = Submit(
            run_id=run_id,
            key=Key(run_id if child_key is None else child_key),
            job=registered.name,
            lane=registered.lane,
            params=document,
            timeout_s=registered.timeout_s,
            queue_timeout_s=registered.queue_timeout_s,
            recovery=registered.recovery,
            on_conflict=policy,
            parent_id=claimed.run_id,
            traceparent=current_trace(),
        )
        return await self._start(step, submission)

    def _step(self, name: str | None, *content: str) -> str:
        """What tells this child from the others, in this and any later execution."""
        if name is not None:
            return f"name\0{check_name(name, place='name')}"
        asked = "\0".join(content)
        self._asked[asked] += 1
        return f"{self._asked[asked]}\0{asked}"

    async def _start(self, step: str, submission: Submit) -> RunId:
        claimed = self._execution.claimed
        command = StartChild(
            claim=self._execution.claim,
            attempt=claimed.attempt,
            step=step,
            submission=submission,
            active_count_max=ACTIVE_CHILD_COUNT_MAX,
        )
        answer = await persistently(lambda: self._store.apply(command))
        match answer:
            case Found(run_id):
                return run_id
            case NotRunning():
                raise RunNotActive(claimed.run_id)
            case OtherChild(run_id, job):
                problem = f"its name stands for run {run_id} of job {job!r}; choose another name"
                raise ChildRefused(claimed.run_id, problem)
            case TooManyChildren(active_count_max):
                problem = f"it has {active_count_max:,} active ones; wait for some of them first"
                raise ChildRefused(claimed.run_id, problem)
            case _:
                run_id = admitted(submission, answer)
                self._execution.has_progressed = True
                return run_id

    async def _check_family(self, key: str | None) -> None:
        """Refuse a child that could never start, or is too far down. Who is whose never changes."""
        claimed = self._execution.claimed
        if self._ancestors is None:
            self._ancestors = await persistently(
                lambda: self._runs.ancestors(claimed.run_id, limit=CHILD_DEPTH_MAX)
            )
        if len(self._ancestors) >= CHILD_DEPTH_MAX:
            problem = f"it stands {CHILD_DEPTH_MAX} generations down, which is the limit"
            raise ChildRefused(claimed.run_id, problem)
        if key == claimed.key:
            problem = f"key {key!r} is its own, and busy until it ends; choose another key"
            raise ChildRefused(claimed.run_id, problem)
        for ancestor in self._ancestors:
            if key == ancestor.key:
                problem = (
                    f"key {key!r} is that of run {ancestor.id}, which waits for this one; "
                    "choose another key"
                )
                raise ChildRefused(claimed.run_id, problem)

    async def record(self, run_id: RunId) -> RunRecord:
        record = await persistently(lambda: self._runs.run(run_id))
        if record is None:
            raise RunNotFound(run_id)
        return record

    async def ended(self, run_id: RunId) -> RunRecord:
        """The child, once it is over, however it ended."""
        changed = asyncio.Event()
        with self._told_of(run_id, changed):
            while True:  # Until the child ends, or the wait for it.
                changed.clear()  # Before the look, or what happens during it would be missed.
                record = await self.record(run_id)
                if record.run.status in TERMINAL:
                    return record
                await self._news(changed)

    @contextmanager
    def _told_of(self, run_id: RunId, changed: asyncio.Event) -> Iterator[None]:
        if not self._waits:
            self._stop_listening = self._store.listen(self._note)
        self._waits[changed] = run_id
        try:
            yield
        finally:
            del self._waits[changed]
            if not self._waits:
                self._stop_listening()

    def _note(self, events: Sequence[Event]) -> None:
        moved = {event.run_id for event in events if event.type == EventType.STATE_CHANGED}
        if moved:
            for changed, run_id in self._waits.items():
                if run_id in moved:
                    changed.set()

    async def _news(self, changed: asyncio.Event) -> None:
        while not changed.is_set():  # Until the child may have ended.
            if not await is_set_within(changed, POLL_S):
                await self._look()

    async def _look(self) -> None:
        """Another process may be executing them. Of all that wait, one looks for all."""
        now_s = time.monotonic()
        if now_s - self._looked_at_s < POLL_S:
            return
        self._looked_at_s = now_s
        parent_id = self._execution.claimed.run_id
        active = await persistently(
            lambda: self._runs.active_children(parent_id, limit=ACTIVE_CHILD_COUNT_MAX)
        )
        over = set(self._waits.values()) - set(active)
        for changed, run_id in self._waits.items():
            if run_id in over:
                changed.set()
