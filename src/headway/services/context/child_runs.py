"""Start and await the child runs of an execution, and find those of earlier executions."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from headway.core.command.run.child import CHILD_DEPTH_MAX
from headway.core.command.run.submit import Accepted
from headway.core.document import check_name, parse_enum
from headway.core.errors import ChildRefused, InvalidInput, RunNotFound
from headway.core.ids import RunId
from headway.core.run.admission import OnConflict
from headway.core.run.run import Run, RunRecord
from headway.ports.run_reader import RunReader
from headway.services.context.execution import Execution
from headway.services.retrying import retry_until_available
from headway.services.submit.job import JobFunction, encode_params, find_job
from headway.services.submit.run_watcher import RunWatcher
from headway.services.submit.submitter import Submitter

CHILD_POLICIES: Final = frozenset({OnConflict.REJECT, OnConflict.ENQUEUE, OnConflict.REPLACE})


class Children:
    """Starts the children of one execution, and waits for their end."""

    def __init__(
        self, execution: Execution, submitter: Submitter, runs: RunReader, watcher: RunWatcher
    ) -> None:
        self._execution = execution
        self._submitter = submitter
        self._runs = runs
        self._watcher = watcher
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
        """Return the id of the child for these arguments. Start the child unless it exists.

        An earlier execution of the parent may have started it. Raise ChildRefused if the child
        could never start, or if the parent has too many children. Raise RunNotActive if the parent
        must end.
        """
        registered = find_job(self._submitter.jobs, job)
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
        child = await self._submitter.submit_child_run(
            self._execution.claim,
            registered,
            document,
            attempt=claimed.attempt,
            step=step,
            key=child_key,
            on_conflict=policy,
        )
        if isinstance(child, Accepted):
            self._execution.has_progressed = True
        return child.run_id

    def _step_key(self, name: str | None, *content: str) -> str:
        """Return a key that identifies the child in this and in later executions of its parent."""
        if name is not None:
            return f"name\0{check_name(name, field='name')}"
        request = "\0".join(content)
        self._request_counts[request] += 1
        return f"{self._request_counts[request]}\0{request}"

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
            problem = (
                f"key {key!r} is the run's own key, which is busy until the run ends;"
                " choose another key"
            )
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
