"""The children of one execution: each is started once, found by later executions, and awaited."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headway.core.command.run.child import (
    ACTIVE_CHILD_COUNT_MAX,
    CHILD_DEPTH_MAX,
    ChildFound,
    ChildMismatch,
    ParentNotRunning,
    StartChild,
    TooManyChildren,
    make_child_id,
)
from headway.core.command.run.submit import Submit
from headway.core.document import check_name, parse_enum
from headway.core.errors import ChildRefused, InvalidInput, RunNotActive, RunNotFound
from headway.core.ids import Key, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.run import Run, RunRecord
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.context.execution import Execution
from headway.services.retrying import retry_until_available
from headway.services.submit.admit import run_id_or_raise
from headway.services.submit.job import Job, JobFunction, encode_params, find_job
from headway.services.submit.run_watcher import RunWatcher
from headway.trace import current_trace

CHILD_POLICIES: Final = frozenset({OnConflict.REJECT, OnConflict.ENQUEUE, OnConflict.REPLACE})


class Children:
    """Starts the children of one execution, and waits for their end."""

    def __init__(
        self,
        execution: Execution,
        store: Store,
        runs: RunReader,
        watcher: RunWatcher,
        jobs: Mapping[str, Job],
    ) -> None:
        self._execution = execution
        self._store = store
        self._runs = runs
        self._watcher = watcher
        self._jobs = jobs
        self._request_counts: Counter[str] = Counter()
        """How often this execution has started each combination of job, key and parameters."""
        self._ancestors: Sequence[Run] | None = None

    async def start(
        self,
        job: str | JobFunction,
        *,
        key: str | None,
        params: dict[str, Any] | None,
        name: str | None,
        on_conflict: OnConflict | str,
    ) -> RunId:
        """Return the child for these arguments. Start it unless an earlier execution did.

        Raise ChildRefused if it could never start or there are too many children. Raise
        RunNotActive if the parent must end.
        """
        registered = find_job(self._jobs, job)
        policy = parse_enum(OnConflict, on_conflict, field="on_conflict")
        if policy not in CHILD_POLICIES:
            problem = (
                f"must be one of: {', '.join(sorted(CHILD_POLICIES))}; a child is always a new run"
            )
            raise InvalidInput("on_conflict", problem)
        document = encode_params(registered, params)
        child_key = None if key is None else check_name(key, field="key")
        await self._check_ancestors(child_key)
        claimed = self._execution.claimed
        step = self._step_key(name, registered.name, child_key or "", document)
        run_id = make_child_id(claimed.run_id, step, claimed.attempt)
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

    def _step_key(self, name: str | None, *content: str) -> str:
        """Return a key that identifies this child in this and in any later execution."""
        if name is not None:
            return f"name\0{check_name(name, field='name')}"
        request = "\0".join(content)
        self._request_counts[request] += 1
        return f"{self._request_counts[request]}\0{request}"

    async def _start(self, step: str, submission: Submit) -> RunId:
        claimed = self._execution.claimed
        command = StartChild(
            claim=self._execution.claim,
            attempt=claimed.attempt,
            step=step,
            submission=submission,
            active_count_max=ACTIVE_CHILD_COUNT_MAX,
        )
        answer = await retry_until_available(lambda: self._store.apply(command))
        match answer:
            case ChildFound(run_id):
                return run_id
            case ParentNotRunning():
                raise RunNotActive(claimed.run_id)
            case ChildMismatch(run_id, job):
                problem = f"its name is that of run {run_id} of job {job!r}; choose another name"
                raise ChildRefused(claimed.run_id, problem)
            case TooManyChildren(active_count_max):
                problem = (
                    f"it has {active_count_max:,} active children; wait for some of them first"
                )
                raise ChildRefused(claimed.run_id, problem)
            case _:
                run_id = run_id_or_raise(submission, answer)
                self._execution.has_progressed = True
                return run_id

    async def _check_ancestors(self, key: str | None) -> None:
        """Raise ChildRefused if the child could never start, or if it is nested too deeply.

        A child with the key of an ancestor could never start, because that key stays busy. The
        ancestors of a run never change, so they are read once.
        """
        claimed = self._execution.claimed
        if self._ancestors is None:
            self._ancestors = await retry_until_available(
                lambda: self._runs.ancestors(claimed.run_id, limit=CHILD_DEPTH_MAX)
            )
        if len(self._ancestors) >= CHILD_DEPTH_MAX:
            problem = f"it is nested {CHILD_DEPTH_MAX} levels deep, which is the limit"
            raise ChildRefused(claimed.run_id, problem)
        if key == claimed.key:
            problem = f"key {key!r} is the run's own and busy until it ends; choose another key"
            raise ChildRefused(claimed.run_id, problem)
        for ancestor in self._ancestors:
            if key == ancestor.key:
                problem = (
                    f"key {key!r} is that of run {ancestor.id}, which waits for this one; "
                    "choose another key"
                )
                raise ChildRefused(claimed.run_id, problem)

    async def record(self, run_id: RunId) -> RunRecord:
        record = await retry_until_available(lambda: self._runs.run(run_id))
        if record is None:
            raise RunNotFound(run_id)
        return record

    async def wait_for_end(self, run_id: RunId) -> RunRecord:
        """Wait for the end of a child, and return its record."""
        return await retry_until_available(lambda: self._watcher.wait_for_end(run_id))
