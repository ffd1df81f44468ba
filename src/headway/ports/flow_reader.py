"""Flows and their tasks, as they can be read."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headway.core.command.flow.load_task import StoredTask
from headway.core.flow.engine.records import FlowRun, SavedFlow, SavedVersion, VersionSummary
from headway.core.flow.engine.state import NodeRun
from headway.core.ids import Instant, RunId
from headway.core.run.run import RunRecord
from headway.core.run.status import RunStatus


class FlowTask(NamedTuple):
    """A flow task: its run, and what it has beside it."""

    record: RunRecord
    flow_run: FlowRun
    cursor: tuple[Instant, RunId]
    """In the order in which tasks are listed."""


class SharedState(NamedTuple):
    """Of a task, as it is stored."""

    members: Mapping[str, str]
    """Keys, and values in JSON."""
    signals: Sequence[str]
    """What its driver has not taken in, each as JSON."""
    seq: int
    """Of the stream, at that instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    statuses: Collection[RunStatus] = ()
    flow: str | None = None
    waits_for: str | None = None


class FlowReader(Protocol):
    async def has_flows(self) -> bool: ...

    async def flow(self, name: str) -> SavedFlow | None: ...

    async def flow_by_id(self, flow_id: str) -> SavedFlow | None: ...

    async def flows(self, *, limit: int, after: str = "") -> Sequence[SavedFlow]:
        """By name, from the one after `after` on."""
        ...

    async def version(self, flow: str, version: int) -> SavedVersion | None: ...

    async def versions(
        self, flow: str, *, limit: int, before: int | None = None
    ) -> Sequence[VersionSummary]:
        """The newest first, from the one before `before` on."""
        ...

    async def task(self, run_id: RunId) -> FlowTask | None: ...

    def tasks(
        self, wanted: TaskFilter, *, limit: int, after: tuple[Instant, RunId] | None = None
    ) -> AsyncIterator[FlowTask]:
        """Those that moved last come first; the next page begins `after` the last one's `place`.

        Their order is that of the first look. Each is read when its turn is near, so that few are
        held at once; what is no longer `wanted` then is left out.
        """
        ...

    async def stored_task(self, run_id: RunId) -> StoredTask | None: ...

    async def shared_state(self, run_id: RunId) -> SharedState:
        """As of one instant. It is empty for what is no task."""
        ...

    def node_runs(self, run_id: RunId, *, limit: int, after_seq: int = 0) -> AsyncIterator[NodeRun]:
        """In the order of their ends, each read when its turn is near."""
        ...
