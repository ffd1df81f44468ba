"""Convert a state to the parts in which it is stored, and restore a state from these parts.

The cursor is small for every flow: even for ten thousand branches it contains only the number of
branches that were launched. The node runs contain the results of the branches that are done.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headway.core.flow.definition.definition import Flow
from headway.core.flow.engine.calls import CallHandler, make_call_id
from headway.core.flow.engine.fan_out import branch_byte_count
from headway.core.flow.engine.inputs import WorkerRef
from headway.core.flow.engine.kinds import HANDLERS
from headway.core.flow.engine.state import (
    LONG_AGO,
    Branch,
    FlowState,
    Frame,
    NodeRun,
    NodeRunStatus,
)
from headway.core.flow.engine.step_context import MILLISECOND, has_prep, resolve_input
from headway.core.ids import Instant
from headway.core.run.status import RunStatus


class StoredState(NamedTuple):
    """The stored parts of a state, as JSON values.

    `frozen_input` is a list of one value, or None.
    """

    cursor: Mapping[str, Any]
    shared: Mapping[str, Any]
    inner_shared: list[dict[str, Any]]
    frozen_input: list[Any] | None


def to_cursor(state: FlowState) -> dict[str, Any]:
    """Return the part of the state that is stored with every commit."""
    cursor: dict[str, Any] = {
        "frames": [_encode_frame(frame) for frame in state.frames],
        "rows": state.row_count,
        "last": state.last_action,
    }
    if state.is_over:
        cursor |= {"status": state.status.value, "error": state.error}
    return cursor


def first_row_needed(cursor: Mapping[str, Any]) -> int | None:
    """Return the `seq` of the first node run that `load_state` needs, or None.

    `load_state` needs that node run and all later ones. None means that the node makes no calls, so
    that no node runs are needed.
    """
    frame = cursor["frames"][-1]
    return int(frame["since"]) + 1 if "launched" in frame else None


def awaited_services(cursor: Mapping[str, Any]) -> set[str]:
    """Return the services for which calls of the run wait. Only the cursor is needed."""
    open_documents = cursor["frames"][-1].get("open", {}).values()
    return {document["awaits"] for document in open_documents if "awaits" in document}


def load_state(
    flow: Flow, params: Mapping[str, Any], stored: StoredState, rows: Iterable[NodeRun]
) -> FlowState:
    """Restore the state as it was stored. Calls that were in flight are repeated on wake-up.

    `rows` are the node runs from `first_row_needed` on, in order.
    """
    cursor = stored.cursor
    frozen = stored.frozen_input
    state = FlowState(
        [],
        row_count=cursor["rows"],
        last_action=cursor["last"],
        status=RunStatus(cursor.get("status", RunStatus.RUNNING)),
        error=cursor.get("error", ""),
        frozen_input=None if frozen is None else (frozen[0],),
    )
    params = dict(params)
    shared_states = [dict(stored.shared), *stored.inner_shared]
    for document, shared in zip(cursor["frames"], shared_states, strict=True):
        frame = _decode_frame(document, flow, params, shared, state)
        state.frames.append(frame)
        if frame.node.subflow is not None:
            flow = frame.node.subflow
            has_input = frame.is_entered and has_prep(frame.node)
            params = (
                {**frame.merged_params, "input": frame.input} if has_input else frame.merged_params
            )
    frame = state.frames[-1]
    handler = HANDLERS[frame.node.kind]
    if frame.is_entered and isinstance(handler, CallHandler) and not state.is_over:
        handler.resolve_branches(frame)
        _restore_branches(frame, handler, rows, cursor["frames"][-1].get("open", {}))
    return state


def _encode_frame(frame: Frame) -> dict[str, Any]:
    document: dict[str, Any] = {"node": frame.node.key}
    if frame.try_no > 1:
        document["try"] = frame.try_no
    if frame.retry_at is not None:
        document["again"] = frame.retry_at
    if frame.is_entered:
        document |= {"at": frame.entered_at, "since": frame.entered_row_count}
    if frame.ends_at is not None:
        document["until"] = frame.ends_at
    if frame.missing_since:
        document["missing"] = frame.missing_since
    if frame.launched_count:
        document["launched"] = frame.launched_count
    if _has_branch_details(frame):
        open_documents = {
            str(branch.index): _encode_branch(frame, branch)
            for branch in frame.open_branches.values()
        }
        document["open"] = {index: details for index, details in open_documents.items() if details}
    return document


def _has_branch_details(frame: Frame) -> bool:
    """Return whether an open branch may have details that the node runs do not contain."""
    node = frame.node
    if frame.has_tried_another_worker or (node.flow and node.timeout_ms):
        return True
    return frame.is_awaiting_callee


def _encode_branch(frame: Frame, branch: Branch) -> dict[str, Any]:
    """Encode the details of a branch that the node runs do not contain. Usually there are none."""
    document: dict[str, Any] = {}
    if frame.node.flow and frame.node.timeout_ms:
        # A child run continues while its parent is not executing, and its time limit keeps running.
        document["started"] = branch.started_at
    if branch.is_awaiting_callee:
        document |= {"started": branch.started_at, "at": branch.call_at, "untaken": True}
    if branch.awaited_service:
        document["awaits"] = branch.awaited_service
    if branch.attempt > 1:
        document |= {"attempt": branch.attempt, "error": branch.error, "at": branch.call_at}
        document["excluded"] = list(branch.excluded)
        if branch.worker is not None:
            document["worker"] = list(branch.worker)
    return document


def _decode_frame(
    document: Mapping[str, Any],
    flow: Flow,
    params: Mapping[str, Any],
    shared: dict[str, Any],
    state: FlowState,
) -> Frame:
    frame = Frame(
        flow,
        params,
        shared,
        flow.nodes[document["node"]],
        is_entered="at" in document,
        entered_at=Instant(document.get("at", 0)),
        entered_row_count=document.get("since", 0),
        try_no=document.get("try", 1),
        ends_at=document.get("until"),
        retry_at=document.get("again"),
        launched_count=document.get("launched", 0),
        missing_since=dict(document.get("missing", {})),
    )
    if frame.is_entered:
        frame.input, frame.merged_params = resolve_input(frame)
        if not state.frames and state.frozen_input is not None:
            (frame.input,) = state.frozen_input
    return frame


def _restore_branches(
    frame: Frame, handler: CallHandler, rows: Iterable[NodeRun], documents: Mapping[str, Any]
) -> None:
    """Restore which branches are done, which have failed, and which must be called (again)."""
    failed_rows: dict[int, NodeRun] = {}
    for row in rows:
        if row.branch is None:
            continue
        if row.status is NodeRunStatus.OK:
            frame.results[row.branch] = row.output
            frame.result_byte_count += branch_byte_count(row.output, "")
        elif row.is_settled:
            frame.errors[row.branch] = row.error
            frame.result_byte_count += branch_byte_count(None, row.error)
        else:
            failed_rows[row.branch] = row
    for index in range(frame.launched_count):
        if index in frame.results or index in frame.errors:
            continue
        failed_row = failed_rows.get(index)
        try_no = 1 if failed_row is None else failed_row.attempt + 1
        call_at = LONG_AGO  # The call was in flight, so it is repeated at once.
        if failed_row is not None:
            call_at = Instant(failed_row.finished_at + frame.node.wait_ms * MILLISECOND)
        branch = _decode_branch(frame, index, try_no, call_at, documents.get(str(index), {}))
        frame.open_branches[index] = branch
        handler.set_alarm(frame, branch)


def _decode_branch(
    frame: Frame, index: int, try_no: int, call_at: Instant, document: Mapping[str, Any]
) -> Branch:
    attempt = document.get("attempt", 1)
    frame.has_tried_another_worker |= attempt > 1
    worker = document.get("worker")
    branch = Branch(
        index,
        make_call_id(frame, index, try_no=try_no, attempt=attempt),
        try_no=try_no,
        attempt=attempt,
        excluded=tuple(document.get("excluded", ())),
        error=document.get("error", ""),
        worker=None if worker is None else WorkerRef(*worker),
        started_at=document.get("started"),
        call_at=document.get("at") or call_at,
        is_issued=document.get("at") is None,
        is_awaiting_callee=document.get("untaken", False),
        awaited_service=document.get("awaits", ""),
    )
    if branch.started_at is not None and frame.node.timeout_ms:
        branch.deadline_at = Instant(branch.started_at + frame.node.timeout_ms * MILLISECOND)
    return branch
