"""Publish flows and start their tasks. A task is a run with the state of a flow."""

from dataclasses import dataclass
from typing import ClassVar, Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RevisionMismatch, RowsNeeded
from headway.core.command.run.child import StartChild, StartChildResult
from headway.core.command.run.submit import Accepted, Submit, SubmitResult
from headway.core.document import Document, check_text, encode_document, trim_names
from headway.core.errors import InvalidInput
from headway.core.event_payloads import FlowChanged
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

VERSION_MAX: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FlowSaved:
    flow_id: str
    version: int
    """The version that was added, else the published version. 0 if there is neither."""
    version_id: str
    revision: int
    is_new: bool
    """False if the flow or version already existed unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFlow:
    """Add a version to a flow, and create the flow if it does not exist.

    A definition that equals the published version adds no version. Without a definition, only the
    flow is created.
    """

    name: str
    flow_id: str
    """The id that the flow gets if this command creates it."""
    definition: Document | None = None
    digest: str = ""
    status: VersionStatus = VersionStatus.PUBLISHED
    version: int | None = None
    """The lowest number that the new version may get. An existing version never changes."""
    expected_revision: int | None = None
    by: str = ""

    may_free_capacity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        trim_names(self, "name")
        check_text(self.by, field="by")
        if self.version is not None and not 0 < self.version <= VERSION_MAX:
            raise InvalidInput("version", f"must be 1 to {VERSION_MAX:,}")

    def document_length(self) -> int:
        return len(self.definition or "")

    def need(self, rows: RowsNeeded) -> None:
        rows.flows[self.name] = None

    def decide(self, batch: BatchState) -> FlowSaved | RevisionMismatch:
        stored = batch.flows.get(self.name)
        revision = 0 if stored is None else stored.revision
        if self.expected_revision is not None and self.expected_revision != revision:
            return RevisionMismatch(revision)
        flow = stored or SavedFlow(self.name, self.flow_id, 0, 0, "", 0, batch.now, batch.now)
        is_published = self.status is VersionStatus.PUBLISHED
        if self.definition is None:
            if stored is not None:
                return FlowSaved(flow.id, flow.published, "", revision, is_new=False)
        elif is_published and flow.published and flow.digest == self.digest:
            version_id = make_version_id(flow, flow.published)
            return FlowSaved(flow.id, flow.published, version_id, revision, is_new=False)
        else:
            flow = self._add_version(batch, flow, is_published=is_published)
        flow = flow._replace(revision=revision + 1, updated_at=batch.now)
        batch.flows[self.name] = flow_changes(batch).flows[self.name] = flow
        batch.emit_global(FlowChanged(flow.name, flow.latest, flow.revision, self.by))
        number = 0 if self.definition is None else flow.latest
        version_id = make_version_id(flow, number)
        return FlowSaved(flow.id, number, version_id, flow.revision, is_new=True)

    def _add_version(self, batch: BatchState, flow: SavedFlow, *, is_published: bool) -> SavedFlow:
        assert self.definition is not None
        number = max(flow.latest + 1, self.version or 1)
        flow_changes(batch).versions.append(
            SavedVersion(
                self.name,
                number,
                make_version_id(flow, number),
                self.definition,
                self.status.value,
                self.digest,
                batch.now,
            )
        )
        flow = flow._replace(latest=number)
        return flow._replace(published=number, digest=self.digest) if is_published else flow


def make_version_id(flow: SavedFlow, version: int) -> str:
    """Return the id of a version, `ver-…`, which is derived from the flow's id."""
    return f"{VERSION_PREFIX}{flow.id.removeprefix(FLOW_PREFIX)}-{version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStart:
    """The initial flow state of a new task."""

    flow: str
    version: int
    node: str
    cursor: Document | None = None
    """The position where the task starts, if not at the start of the flow."""
    shared: tuple[tuple[str, str], ...] = ()
    """The initial shared state: pairs of a name and a value, each as JSON text."""
    rerun_of: RunId | None = None

    def document_length(self) -> int:
        return sum([len(value) for _, value in self.shared])

    def add_to(self, batch: BatchState, run_id: RunId) -> None:
        pin = encode_document(
            {
                "flow": self.flow,
                "version": self.version,
                "is_kept": self.cursor is not None,
                "parent_id": batch.runs[run_id].parent_id,
            },
            field="flow",
        )
        batch.changes.runs_added[run_id]["checkpoint"] = pin
        batch.checkpoints[run_id] = pin
        changes = flow_changes(batch)
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
                batch.now,
                self.rerun_of,
            )
        )
        changes.shared_added += [SharedValue(run_id, name, value) for name, value in self.shared]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFlow:
    """Start a task of a flow."""

    submission: Submit
    start: FlowStart

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        assert self.submission.job == FLOW_JOB

    def document_length(self) -> int:
        return self.submission.document_length() + self.start.document_length()

    def need(self, rows: RowsNeeded) -> None:
        self.submission.need(rows)

    def decide(self, batch: BatchState) -> SubmitResult:
        answer = self.submission.decide(batch)
        if isinstance(answer, Accepted):
            self.start.add_to(batch, answer.run_id)
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFlowChild:
    """Start a child task that another task waits for. The child's end is posted to that task."""

    child: StartChild
    start: FlowStart

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return self.child.document_length() + self.start.document_length()

    def need(self, rows: RowsNeeded) -> None:
        self.child.need(rows)

    def decide(self, batch: BatchState) -> StartChildResult:
        answer = self.child.decide(batch)
        if isinstance(answer, Accepted):
            self.start.add_to(batch, answer.run_id)
        return answer


def flow_changes(batch: BatchState) -> FlowChanges:
    if batch.changes.flow is None:
        batch.changes.flow = FlowChanges()
    return batch.changes.flow
