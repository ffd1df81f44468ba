"""Start the child tasks of a task, each at most once per call, and collect their outcomes."""

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from headway.core.command.flow.load_task import ReadTaskUpdates
from headway.core.command.flow.publish import FlowStart
from headway.core.command.run.child import CHILD_DEPTH_MAX, make_child_id
from headway.core.errors import ConflictError, FlowNotFound, InvalidInput, LaneFull, RunNotActive
from headway.core.flow.engine.effects import CallFlow, CancelCall, Effect
from headway.core.flow.engine.inputs import Answered, Failed
from headway.core.flow.engine.records import EndedChild
from headway.core.ids import RunId
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.flow.definition_cache import DefinitionCache
from headway.services.retrying import retry_until_available
from headway.services.submit.submitter import Submitter

FIRST_ATTEMPT: Final = 1
"""The attempt number in the ids of children. It is constant: a task is never retried."""


class ChildTasks:
    def __init__(
        self,
        claim: Claim,
        store: Store,
        runs: RunReader,
        definitions: DefinitionCache,
        submitter: Submitter,
        *,
        is_child: bool,
    ) -> None:
        self._claim = claim
        self._store = store
        self._run_reader = runs
        self._definitions = definitions
        self._submitter = submitter
        self._depth = None if is_child else 0
        self._depth_lock = asyncio.Lock()
        self.open_child_ids: dict[str, RunId] = {}
        """The ids of the awaited children, by the id of the call that started each child."""

    async def start(self, calls: Sequence[CallFlow], *, may_exist: bool) -> list[Answered | Failed]:
        """Start the children. Return the outcomes of children that have ended or cannot start.

        `may_exist` means that an earlier execution of the task may have started the children, so
        that some may have ended.
        """
        ids = {call.call_id: self._child_id(call.call_id) for call in calls}
        self.open_child_ids |= ids
        ended: list[Answered | Failed] = []
        if may_exist:
            command = ReadTaskUpdates(self._claim, tuple(ids.values()))
            updates = await retry_until_available(lambda: self._store.apply(command))
            ended = self.take_ended({} if updates is False else updates.ended_children)
            calls = [call for call in calls if call.call_id in self.open_child_ids]
        versions = await self._read_newest_versions(
            {call.flow for call in calls if not call.version}
        )
        refused = await asyncio.gather(*(self._start(call, versions) for call in calls))
        failures = [failure for failure in refused if failure is not None]
        for failure in failures:
            self.open_child_ids.pop(failure.call_id, None)
        return failures + ended

    def list_cancelled(self, effects: Iterable[Effect]) -> list[RunId]:
        """Return the children that a step cancels, even if an earlier execution started them."""
        return [
            self._child_id(effect.call_id)
            for effect in effects
            if isinstance(effect, CancelCall) and effect.is_child
        ]

    def _child_id(self, call_id: str) -> RunId:
        return make_child_id(self._claim.run_id, _step_name(call_id), FIRST_ATTEMPT)

    def take_ended(self, ended: Mapping[RunId, EndedChild]) -> list[Answered | Failed]:
        """Return the outcomes of the awaited children in `ended`, and stop awaiting them.

        The outcomes are in the order in which the children were started.
        """
        if not ended:
            return []
        ended_calls = [
            (call_id, run_id) for call_id, run_id in self.open_child_ids.items() if run_id in ended
        ]
        for call_id, _ in ended_calls:
            del self.open_child_ids[call_id]
        return [_to_outcome(call_id, run_id, ended[run_id]) for call_id, run_id in ended_calls]

    async def _read_newest_versions(self, names: Collection[str]) -> dict[str, int]:
        """Return the version that a new task of each flow gets. Missing flows are left out."""
        versions: dict[str, int] = {}
        for name in names:
            with suppress(FlowNotFound):
                versions[name] = await retry_until_available(
                    partial(self._definitions.read_newest_version, name)
                )
        return versions

    async def _start(self, call: CallFlow, versions: Mapping[str, int]) -> Failed | None:
        try:
            start = await self._build_start(call, versions)
            await self._submitter.submit_child_task(
                self._claim,
                start,
                call.params,
                attempt=FIRST_ATTEMPT,
                step=_step_name(call.call_id),
            )
        except RunNotActive:  # The engine will stop this execution shortly.
            return None
        except (FlowNotFound, InvalidInput) as error:
            return Failed(call.call_id, str(error))
        except (ConflictError, LaneFull) as error:
            return Failed(call.call_id, f"child_refused: {error}")
        return None

    async def _build_start(self, call: CallFlow, versions: Mapping[str, int]) -> FlowStart:
        if await self._read_depth() >= CHILD_DEPTH_MAX:
            problem = f"the task is nested {CHILD_DEPTH_MAX} levels deep, which is the limit"
            raise InvalidInput("child_refused", problem)
        name = call.flow
        version = call.version or versions.get(name)
        if version is None:
            raise FlowNotFound(name)
        flow = await retry_until_available(lambda: self._definitions.flow(name, version))
        return FlowStart(flow=name, version=version, node=flow.start)

    async def _read_depth(self) -> int:
        """Return how many ancestors the task has. A task without a parent needs no query."""
        if self._depth is None:
            async with self._depth_lock:
                own_id = self._claim.run_id
                if self._depth is None:
                    ancestors = await retry_until_available(
                        lambda: self._run_reader.ancestors(own_id, limit=CHILD_DEPTH_MAX)
                    )
                    self._depth = len(ancestors)
        return self._depth


def _step_name(call_id: str) -> str:
    return f"call\0{call_id}"


def _to_outcome(call_id: str, run_id: RunId, child: EndedChild) -> Answered | Failed:
    """Return the outcome of the call that started a child.

    If the child succeeded, the result of the call is the child's shared state.
    """
    if child.status is RunStatus.SUCCEEDED:
        assert child.result is not None
        return Answered(call_id, json.loads(child.result))
    error = {} if child.error is None else json.loads(child.error)
    message = error.get("message") or f"run {run_id}"
    return Failed(call_id, f"child_{child.status.value}: {message}")
