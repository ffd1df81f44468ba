"""Reads of flows and their tasks."""

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
    """A task of a flow: its run, and the rows that only tasks have."""

    record: RunRecord
    flow_run: FlowRun
    cursor: tuple[Instant, RunId]
    """The position of this task in the list, from which the next page begins."""


class SharedState(NamedTuple):
    """The shared state of a task, as it is stored."""

    members: Mapping[str, str]
    """The values of the shared state by key, each as JSON."""
    signals: Sequence[str]
    """Signals that the task's driver has not processed yet, each as JSON."""
    seq: int
    """The number of the last event of the stream when the state was read."""


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
        """Return flows sorted by name, beginning after the name `after`."""
        ...

    async def version(self, flow: str, version: int) -> SavedVersion | None: ...

    async def versions(
        self, flow: str, *, limit: int, before: int | None = None
    ) -> Sequence[VersionSummary]:
        """Return the flow's versions whose numbers are lower than `before`, newest first."""
        ...

    async def task(self, run_id: RunId) -> FlowTask | None: ...

    def tasks(
        self, task_filter: TaskFilter, *, limit: int, after: tuple[Instant, RunId] | None = None
    ) -> AsyncIterator[FlowTask]:
        """Yield tasks, most recently changed first.

        For the next page, pass the `cursor` of the last task as `after`. The first query fixes the
        order. Rows are then read lazily, in small batches. A task that no longer matches the filter
        when it is read is left out.
        """
        ...

    async def stored_task(self, run_id: RunId) -> StoredTask | None: ...

    async def shared_state(self, run_id: RunId) -> SharedState:
        """Return the task's shared state at one instant. It is empty if the run is not a task."""
        ...

    def node_runs(self, run_id: RunId, *, limit: int, after_seq: int = 0) -> AsyncIterator[NodeRun]:
        """Yield the task's node runs in the order in which they ended. Rows are read lazily."""
        ...
