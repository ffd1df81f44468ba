"""Publishing flows, and starting their tasks: a task is a run with a flow beside it."""

from dataclasses import dataclass
from typing import Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RevisionMismatch, RowsNeeded, trim_names
from headway.core.command.run.child import StartChild, StartChildResult
from headway.core.command.run.submit import Accepted, Submit, SubmitResult
from headway.core.document import Document, check_text, encode_document
from headway.core.errors import InvalidInput
from headway.core.flow.engine.records import (
    FLOW_JOB,
    FLOW_PREFIX,
    VERSION_PREFIX,
    FlowChanges,
    FlowRun,
    SavedFlow,
    SavedVersion,
    SharedValue,
    VersionStatus,
)
from headway.core.ids import RunId
from headway.core.run.events import EventType

VERSION_MAX: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FlowSaved:
    flow_id: str
    version: int
    """0: it has none yet."""
    version_id: str
    revision: int
    is_new: bool
    """False: it was there already, as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFlow:
    """A new version of a flow, which is made if need be. Equal definitions are one version.

    Without a definition the flow is only given its name.
    """

    name: str
    flow_id: str
    """For a flow that is new."""
    definition: Document | None = None
    digest: str = ""
    status: VersionStatus = VersionStatus.PUBLISHED
    version: int | None = None
    """At least this number; a number that is taken stays what it is."""
    expected_revision: int | None = None
    by: str = ""

    def __post_init__(self) -> None:
        trim_names(self, "name")
        check_text(self.by, field="by")
        if self.version is not None and not 0 < self.version <= VERSION_MAX:
            raise InvalidInput("version", f"must be 1 to {VERSION_MAX:,}")

    def need(self, needs: RowsNeeded) -> None:
        needs.flows[self.name] = None

    def decide(self, world: BatchState) -> FlowSaved | RevisionMismatch:
        found = world.flows.get(self.name)
        revision = 0 if found is None else found.revision
        if self.expected_revision is not None and self.expected_revision != revision:
            return RevisionMismatch(revision)
        flow = found or SavedFlow(self.name, self.flow_id, 0, 0, "", 0, world.now, world.now)
        is_published = self.status is VersionStatus.PUBLISHED
        if self.definition is None:
            if found is not None:
                return FlowSaved(flow.id, flow.published, "", revision, is_new=False)
        elif is_published and flow.published and flow.digest == self.digest:
            version_id = make_version_id(flow, flow.published)
            return FlowSaved(flow.id, flow.published, version_id, revision, is_new=False)
        else:
            flow = self._add_version(world, flow, is_published=is_published)
        flow = flow._replace(revision=revision + 1, updated_at=world.now)
        world.flows[self.name] = flow_changes(world).flows[self.name] = flow
        told = {
            "flow": flow.name,
            "version": flow.latest,
            "revision": flow.revision,
            "by": self.by,
        }
        world.emit_global(EventType.FLOW_CHANGED, encode_document(told, field="flow"))
        number = 0 if self.definition is None else flow.latest
        version_id = make_version_id(flow, number)
        return FlowSaved(flow.id, number, version_id, flow.revision, is_new=True)

    def _add_version(self, world: BatchState, flow: SavedFlow, *, is_published: bool) -> SavedFlow:
        assert self.definition is not None
        number = max(flow.latest + 1, self.version or 1)
        flow_changes(world).versions.append(
            SavedVersion(
                self.name,
                number,
                make_version_id(flow, number),
                self.definition,
                self.status.value,
                self.digest,
                world.now,
            )
        )
        flow = flow._replace(latest=number)
        return flow._replace(published=number, digest=self.digest) if is_published else flow


def make_version_id(flow: SavedFlow, version: int) -> str:
    """`ver-…`: it follows from the flow's own id."""
    return f"{VERSION_PREFIX}{flow.id.removeprefix(FLOW_PREFIX)}-{version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStart:
    """What a new task has beside its run."""

    flow: str
    version: int
    node: str
    cursor: Document | None = None
    """Where it begins, if that is not at the start of the flow."""
    shared: tuple[tuple[str, str], ...] = ()
    """With what, as names and values in JSON."""
    rerun_of: RunId | None = None

    def add_to(self, world: BatchState, run_id: RunId) -> None:
        pin = encode_document(
            {
                "flow": self.flow,
                "version": self.version,
                "is_kept": self.cursor is not None,
                "parent_id": world.runs[run_id].parent_id,
            },
            field="flow",
        )
        world.changes.runs_added[run_id]["checkpoint"] = pin
        world.checkpoints[run_id] = pin
        changes = flow_changes(world)
        changes.runs_added.append(
            FlowRun(
                run_id,
                self.flow,
                self.version,
                self.node,
                self.cursor,
                None,
                None,
                None,
                world.now,
                self.rerun_of,
            )
        )
        changes.shared_added += [SharedValue(run_id, name, value) for name, value in self.shared]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFlow:
    submission: Submit
    start: FlowStart

    def __post_init__(self) -> None:
        assert self.submission.job == FLOW_JOB

    def need(self, needs: RowsNeeded) -> None:
        self.submission.need(needs)

    def decide(self, world: BatchState) -> SubmitResult:
        answer = self.submission.decide(world)
        if isinstance(answer, Accepted):
            self.start.add_to(world, answer.run_id)
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFlowChild:
    """A task that another task waits for, whose end is told to that one."""

    child: StartChild
    start: FlowStart

    def need(self, needs: RowsNeeded) -> None:
        self.child.need(needs)

    def decide(self, world: BatchState) -> StartChildResult:
        answer = self.child.decide(world)
        if isinstance(answer, Accepted):
            self.start.add_to(world, answer.run_id)
        return answer


def flow_changes(world: BatchState) -> FlowChanges:
    if world.changes.flow is None:
        world.changes.flow = FlowChanges()
    return world.changes.flow
