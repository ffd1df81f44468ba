"""The child tasks of one task: started once, found again, and looked at."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Final

from headway.core.command.cancel import RequestCancel
from headway.core.command.child import (
    CHILD_DEPTH_MAX,
    PARENT_ENDED,
    Found,
    NotRunning,
    OtherChild,
    TooManyChildren,
    child_id,
)
from headway.core.command.child import StartChild as StartRun
from headway.core.command.flow import FlowStart, StartFlowChild
from headway.core.command.submit import Accepted, Submit
from headway.core.document import encode_document
from headway.core.errors import Error, FlowNotFound, InvalidInput
from headway.core.flow.commands import StartChild
from headway.core.flow.happened import Answered, Failed, Happened
from headway.core.flow.kept import FLOW_JOB
from headway.core.ids import FLOW_LANE, Key, RunId
from headway.core.run.run import Claim, RunRecord
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.ports.flow_reader import FlowReader
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.admit import admitted
from headway.services.flow.definitions import Definitions
from headway.services.patience import persistently
from headway.trace import current_trace

FIRST: Final = 1
"""A task has no attempts of its own: its nodes have."""


class ChildTasks:
    def __init__(
        self,
        claim: Claim,
        store: Store,
        runs: RunReader,
        flows: FlowReader,
        definitions: Definitions,
    ) -> None:
        self._claim = claim
        self._store = store
        self._runs = runs
        self._flows = flows
        self._definitions = definitions
        self._depth: int | None = None
        self.open: dict[str, RunId] = {}
        """Those that are waited for, by the id of their call."""

    async def start(self, commands: Sequence[StartChild]) -> list[Happened]:
        """Have all of them there; what has ended already is told, and what cannot be."""
        ids = {one.call_id: self._id(one.call_id) for one in commands}
        found = await persistently(lambda: self._flows.runs_by_id(list(ids.values())))
        missing = [one for one in commands if ids[one.call_id] not in found]
        self.open |= ids
        refused = await asyncio.gather(*(self._start(one) for one in missing))
        happened: list[Happened] = [one for one in refused if one is not None]
        for failure in happened:
            assert isinstance(failure, Failed)
            self.open.pop(failure.call_id, None)
        return happened + self._ended(found)

    async def look(self) -> list[Happened]:
        """Which of them have ended."""
        ids = list(self.open.values())
        return self._ended(await persistently(lambda: self._flows.runs_by_id(ids)))

    async def cancel(self, call_id: str) -> None:
        """Nobody waits for it any more. Its own children end with it."""
        run_id = self.open.pop(call_id, None) or self._id(call_id)
        wanted = RequestCancel(run_id=run_id, reason=PARENT_ENDED)
        await persistently(lambda: self._store.apply(wanted))

    def _id(self, call_id: str) -> RunId:
        return child_id(self._claim.run_id, _step(call_id), FIRST)

    def _ended(self, records: Mapping[RunId, RunRecord]) -> list[Happened]:
        ended: list[Happened] = []
        for call_id, run_id in list(self.open.items()):
            record = records.get(run_id)
            if record is not None and record.run.status in TERMINAL:
                del self.open[call_id]
                ended.append(_outcome(call_id, record))
        return ended

    async def _start(self, command: StartChild) -> Failed | None:
        try:
            wanted = await self._wanted(command)
        except (FlowNotFound, InvalidInput) as error:
            return Failed(command.call_id, str(error))
        answer = await persistently(lambda: self._store.apply(wanted))
        match answer:
            case Accepted() | Found() | NotRunning():  # Who is not running is told so soon.
                return None
            case OtherChild():
                raise AssertionError(answer)
            case TooManyChildren(active_count_max):
                problem = f"child_refused: the task has {active_count_max:,} active children"
                return Failed(command.call_id, problem)
            case _:
                try:
                    admitted(wanted.child.submission, answer)
                except Error as error:
                    return Failed(command.call_id, f"child_refused: {error}")
                return None

    async def _wanted(self, command: StartChild) -> StartFlowChild:
        if self._depth is None:
            own_id = self._claim.run_id
            ancestors = await persistently(
                lambda: self._runs.ancestors(own_id, limit=CHILD_DEPTH_MAX)
            )
            self._depth = len(ancestors)
        if self._depth >= CHILD_DEPTH_MAX:
            problem = f"stands {CHILD_DEPTH_MAX} generations down, which is the limit"
            raise InvalidInput("child_refused", problem)
        name = command.flow
        version = command.version or await persistently(lambda: self._definitions.newest(name))
        flow = await persistently(lambda: self._definitions.flow(name, version))
        run_id = self._id(command.call_id)
        submission = Submit(
            run_id=run_id,
            key=Key(run_id),
            job=FLOW_JOB,
            lane=FLOW_LANE,
            params=encode_document(dict(command.params), place="params"),
            parent_id=self._claim.run_id,
            traceparent=current_trace(),
        )
        child = StartRun(
            claim=self._claim, attempt=FIRST, step=_step(command.call_id), submission=submission
        )
        start = FlowStart(flow=name, version=version, node=flow.start)
        return StartFlowChild(child=child, start=start)


def _step(call_id: str) -> str:
    return f"call\0{call_id}"


def _outcome(call_id: str, record: RunRecord) -> Answered | Failed:
    """The child's shared state is the result of its call."""
    status = record.run.status
    if status is RunStatus.SUCCEEDED:
        assert record.result is not None
        return Answered(call_id, json.loads(record.result))
    error = {} if record.error is None else json.loads(record.error)
    message = error.get("message") or f"run {record.run.id}"
    return Failed(call_id, f"child_{status.value}: {message}")
