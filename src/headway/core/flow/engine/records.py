"""The stored records of flows: versions of definitions, and the parts of each task's state."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from headway.core.flow.engine.inputs import WorkerRef
from headway.core.flow.engine.state import NodeRun, NodeRunStatus
from headway.core.ids import Flag, Instant, RunId
from headway.core.run.status import RunStatus
from headway.core.worker.saved_worker import SavedWorker

FLOW_JOB: Final = "headway.flow"
"""The job of every flow task. A task is a run, and the job's function is the driver."""
SIGNAL: Final = "signal"
"""The inbox kind of a signal, `{"key", "value"}`, which sets a key of the shared state."""
CHILD_ENDED: Final = "child"
"""The inbox kind that reports the id of a child that has ended."""


FLOW_PREFIX: Final = "flow-"
VERSION_PREFIX: Final = "ver-"
TASK_PREFIX: Final = "task-"
"""The prefix of a task id in the API's root paths. The id of the task's run follows it."""


def to_run_id(task_id: str) -> RunId:
    """Return the id of a task's run. `task_id` is that id with or without `TASK_PREFIX`."""
    return RunId(task_id.removeprefix(TASK_PREFIX))


class VersionStatus(StrEnum):
    PUBLISHED = "published"
    DRAFT = "draft"
    """The version is stored, but new tasks do not get it by default."""


class SavedFlow(NamedTuple):
    name: str
    id: str
    latest: int
    """The number of the newest version, published or not. 0 if there is none."""
    published: int
    """The version that new tasks get. 0 if there is none."""
    digest: str
    """The digest of the published version. Equal definitions have the same digest."""
    revision: int
    created_at: Instant
    updated_at: Instant


class SavedVersion(NamedTuple):
    flow: str
    version: int
    id: str
    definition: str
    status: str
    digest: str
    created_at: Instant


class VersionSummary(NamedTuple):
    """A version without its definition, which may be large."""

    version: int
    id: str
    status: str
    digest: str
    created_at: Instant


class FlowRun(NamedTuple):
    """The columns that a task has in addition to those of its run. JSON is text, or None."""

    run_id: RunId
    flow: str
    version: int
    node: str
    standing: str | None
    """The cursor of the task as JSON text."""
    inner_shared: str | None
    frozen_input: str | None
    waits_for: str | None
    """Why the task is parked.

    One of `timer`, `event`, `approval`, `child`, `function`, `worker` and `retry`.
    """
    updated_at: Instant
    rerun_of: RunId | None


class SharedValue(NamedTuple):
    run_id: RunId
    name: str
    """The key as JSON text, so that databases that ignore trailing blanks keep keys distinct."""
    value: str


class NodeRunRow(NamedTuple):
    run_id: RunId
    seq: int
    node_key: str
    path: str
    branch: int | None
    attempt: int
    status: str
    prep: str
    input: str
    output: str
    error: str
    action: str
    started_at: Instant
    finished_at: Instant
    worker_id: str | None
    worker_url: str | None
    is_settled: Flag


class EndedChild(NamedTuple):
    """How a child task ended. The documents are JSON text."""

    status: RunStatus
    result: str | None
    error: str | None


@dataclass(slots=True)
class LoadedTasks:
    """The task rows that a batch has read for the drivers of the tasks."""

    flow_runs: dict[RunId, FlowRun] = field(default_factory=dict)
    shared: dict[RunId, dict[str, str]] = field(default_factory=dict)
    """Maps each task to its shared state: keys and their values as JSON text."""
    rows: dict[RunId, list[NodeRun]] = field(default_factory=dict)
    """The node runs that the current node of each task needs."""
    ended_children: dict[RunId, EndedChild] = field(default_factory=dict)


@dataclass(slots=True)
class FlowChanges:
    """The changes to flows that a batch has decided, for the store to write."""

    flows: dict[str, SavedFlow] = field(default_factory=dict)
    versions: list[SavedVersion] = field(default_factory=list)
    runs_added: list[FlowRun] = field(default_factory=list)
    runs_changed: list[tuple[RunId, dict[str, Any]]] = field(default_factory=list)
    shared_added: list[SharedValue] = field(default_factory=list)
    shared_changed: list[SharedValue] = field(default_factory=list)
    shared_removed: list[tuple[RunId, str]] = field(default_factory=list)
    rows: list[NodeRunRow] = field(default_factory=list)
    workers_added: dict[str, SavedWorker] = field(default_factory=dict)
    workers: dict[str, SavedWorker] = field(default_factory=dict)
    workers_removed: dict[str, None] = field(default_factory=dict)


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_CONSTANTS: Final = {None: "null", True: "true", False: "false"}


def encode_json(value: Any) -> str:
    """Encode a value that was validated when it was received."""
    kind = type(value)
    if kind is int:  # Most values are small, and the encoder takes ten times as long for them.
        return int.__repr__(value)
    if value is None or kind is bool:
        return _CONSTANTS[value]
    return _encode(value)


@lru_cache(maxsize=4_096)
def _encode_path(path: tuple[str, ...]) -> str:
    return _encode(path)


def _encode_prep(prep: Mapping[str, Any]) -> str:
    if len(prep) == 1 and "input_key" in prep:  # Most nodes have only this member.
        return _encode_input_key(prep["input_key"])
    return _encode(prep) if prep else "{}"


@lru_cache(maxsize=4_096)
def _encode_input_key(text: str) -> str:
    return _encode({"input_key": text})


def to_row(run_id: RunId, row: NodeRun) -> NodeRunRow:
    worker = row.worker
    return NodeRunRow(
        run_id,
        row.seq,
        row.node_key,
        _encode_path(row.path),
        row.branch,
        row.attempt,
        row.status.value,
        _encode_prep(row.prep),
        encode_json(row.input),
        encode_json(row.output),
        row.error,
        row.action,
        row.started_at,
        row.finished_at,
        None if worker is None else worker.id,
        None if worker is None else worker.url,
        int(row.is_settled),
    )


def from_row(row: NodeRunRow) -> NodeRun:
    return NodeRun(
        row.seq,
        row.node_key,
        tuple(json.loads(row.path)),
        row.branch,
        row.attempt,
        NodeRunStatus(row.status),
        json.loads(row.prep),
        json.loads(row.input),
        json.loads(row.output),
        row.error,
        row.action,
        row.started_at,
        row.finished_at,
        None if row.worker_id is None else WorkerRef(row.worker_id, row.worker_url or ""),
        bool(row.is_settled),
    )
