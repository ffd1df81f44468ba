"""The child tasks of one task: started once, found again, and looked at."""

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from headway.core.command.flow.load_task import ReadTaskUpdates
from headway.core.command.flow.publish import FlowStart, StartFlowChild
from headway.core.command.run.child import (
    CHILD_DEPTH_MAX,
    ChildFound,
    ChildMismatch,
    ParentNotRunning,
    TooManyChildren,
    make_child_id,
)
from headway.core.command.run.child import StartChild as StartRun
from headway.core.command.run.submit import Accepted, Submit
from headway.core.document import encode_document
from headway.core.errors import Error, FlowNotFound, InvalidInput
from headway.core.flow.engine.effects import CallFlow, CancelCall, Effect
from headway.core.flow.engine.inputs import Answered, Failed
from headway.core.flow.engine.records import FLOW_JOB, EndedChild
from headway.core.ids import FLOW_LANE, Key, RunId
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.flow.definition_cache import DefinitionCache
from headway.services.retrying import retry_until_available
from headway.services.submit.admit import run_id_or_raise
from headway.trace import current_trace

FIRST_ATTEMPT: Final = 1
"""A task has no attempts of its own: its nodes have."""


class ChildTasks:
    def __init__(
        self,
        claim: Claim,
        store: Store,
        runs: RunReader,
        definitions: DefinitionCache,
        *,
        is_child: bool,
    ) -> None:
        self._claim = claim
        self._store = store
        self._run_reader = runs
        self._definitions = definitions
        self._depth = None if is_child else 0
        self._depth_lock = asyncio.Lock()
        self.open_child_ids: dict[str, RunId] = {}
        """Those that are waited for, by the id of their call."""

    async def start(
        self, commands: Sequence[CallFlow], *, may_exist: bool
    ) -> list[Answered | Failed]:
        """Have all of them there; what has ended already is told, and what cannot be.

        `may_exist`: an earlier execution may have started them, and they may be over.
        """
        ids = {one.call_id: self._child_id(one.call_id) for one in commands}
        self.open_child_ids |= ids
        ended: list[Answered | Failed] = []
        if may_exist:
            looked = ReadTaskUpdates(self._claim, tuple(ids.values()))
            news = await retry_until_available(lambda: self._store.apply(looked))
            ended = self.take_ended({} if news is False else news.ended_children)
            commands = [one for one in commands if one.call_id in self.open_child_ids]
        versions = await self._read_newest_versions(
            {one.flow for one in commands if not one.version}
        )
        refused = await asyncio.gather(*(self._start(one, versions) for one in commands))
        failures = [one for one in refused if one is not None]
        for failure in failures:
            self.open_child_ids.pop(failure.call_id, None)
        return failures + ended

    def list_cancelled(self, commands: Iterable[Effect]) -> list[RunId]:
        """Those for which nobody waits after a step, also of an earlier execution."""
        return [
            self._child_id(one.call_id)
            for one in commands
            if isinstance(one, CancelCall) and one.is_child
        ]

    def _child_id(self, call_id: str) -> RunId:
        return make_child_id(self._claim.run_id, _step_name(call_id), FIRST_ATTEMPT)

    def take_ended(self, found: Mapping[RunId, EndedChild]) -> list[Answered | Failed]:
        """The ends of those that are waited for, in the order in which they were started."""
        if not found:
            return []
        calls = [
            (call_id, run_id) for call_id, run_id in self.open_child_ids.items() if run_id in found
        ]
        for call_id, _ in calls:
            del self.open_child_ids[call_id]
        return [_to_outcome(call_id, run_id, found[run_id]) for call_id, run_id in calls]

    async def _read_newest_versions(self, names: Collection[str]) -> dict[str, int]:
        """The versions that new tasks of these flows get; of one that is not there, none."""
        versions: dict[str, int] = {}
        for name in names:
            with suppress(FlowNotFound):
                versions[name] = await retry_until_available(
                    partial(self._definitions.read_newest_version, name)
                )
        return versions

    async def _start(self, command: CallFlow, versions: Mapping[str, int]) -> Failed | None:
        try:
            wanted = await self._build_start(command, versions)
        except (FlowNotFound, InvalidInput) as error:
            return Failed(command.call_id, str(error))
        answer = await retry_until_available(lambda: self._store.apply(wanted))
        match answer:
            case (
                Accepted() | ChildFound() | ParentNotRunning()
            ):  # Who is not running is told so soon.
                return None
            case ChildMismatch():
                raise AssertionError(answer)
            case TooManyChildren(active_count_max):
                problem = f"child_refused: the task has {active_count_max:,} active children"
                return Failed(command.call_id, problem)
            case _:
                try:
                    run_id_or_raise(wanted.child.submission, answer)
                except Error as error:
                    return Failed(command.call_id, f"child_refused: {error}")
                return None

    async def _build_start(self, command: CallFlow, versions: Mapping[str, int]) -> StartFlowChild:
        if await self._read_depth() >= CHILD_DEPTH_MAX:
            problem = f"stands {CHILD_DEPTH_MAX} generations down, which is the limit"
            raise InvalidInput("child_refused", problem)
        name = command.flow
        version = command.version or versions.get(name)
        if version is None:
            raise FlowNotFound(name)
        flow = await retry_until_available(lambda: self._definitions.flow(name, version))
        run_id = self._child_id(command.call_id)
        submission = Submit(
            run_id=run_id,
            key=Key(run_id),
            job=FLOW_JOB,
            lane=FLOW_LANE,
            params=encode_document(dict(command.params), field="params"),
            parent_id=self._claim.run_id,
            traceparent=current_trace(),
        )
        child = StartRun(
            claim=self._claim,
            attempt=FIRST_ATTEMPT,
            step=_step_name(command.call_id),
            submission=submission,
        )
        start = FlowStart(flow=name, version=version, node=flow.start)
        return StartFlowChild(child=child, start=start)

    async def _read_depth(self) -> int:
        """How many generations down. Who is nobody's child need not ask."""
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
    """The child's shared state is the result of its call."""
    if child.status is RunStatus.SUCCEEDED:
        assert child.result is not None
        return Answered(call_id, json.loads(child.result))
    error = {} if child.error is None else json.loads(child.error)
    message = error.get("message") or f"run {run_id}"
    return Failed(call_id, f"child_{child.status.value}: {message}")
