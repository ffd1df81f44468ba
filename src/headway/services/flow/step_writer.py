"""Build the command that stores a step of a task."""

import json
from collections.abc import Sequence
from typing import Any, Final

from headway.core.command.flow.advance import AdvanceFlow, ContinueTask, EndTask, ParkTask
from headway.core.command.flow.load_task import StoredTask
from headway.core.command.flow.shared_state import SharedStateUsage
from headway.core.document import BYTE_COUNT_MAX, Document, byte_count
from headway.core.errors import TooLarge
from headway.core.flow.engine.records import NodeRunRow, SharedValue, encode_json, to_row
from headway.core.flow.engine.state import FlowState, StepResult
from headway.core.flow.engine.stored_state import StoredState, to_cursor
from headway.core.ids import RunId
from headway.core.run.run import Claim
from headway.ports.flow_reader import SharedState

_BRACES_SIZE: Final = 1
"""The size of two braces, minus the comma that the last member does not have."""
_TOO_LARGE: Final = f"is more than {BYTE_COUNT_MAX:,} bytes"


class StepWriter:
    """Builds the commands that store steps, and tracks the stored sizes of the shared state.

    Only the holder of the claim may use it. While the claim is held, no other process writes these
    rows, so the tracked sizes stay correct.
    """

    def __init__(self, claim: Claim, parent_id: RunId | None) -> None:
        self._claim = claim
        self._parent_id = parent_id
        self._sizes: dict[str, int] = {}
        """The stored size in bytes of each member of the shared state: its name and its value."""
        self._size = _BRACES_SIZE
        """The size of the whole shared state as the result of the task, in bytes."""
        self._pending_sizes: dict[str, int | None] = {}
        """The new sizes of the members that the step changes. None for a removed member."""
        self._pending_growth = 0
        """By how many bytes the step enlarges the shared state."""
        self._stored_cursor: str | None = None

    def load(self, stored: StoredTask) -> None:
        self._sizes = {
            key: _member_size(encode_json(key), value) for key, value in stored.shared.items()
        }
        self._size = _BRACES_SIZE + sum(self._sizes.values())
        self._stored_cursor = stored.flow_run.standing

    def has_changes(self, state: FlowState, result: StepResult) -> bool:
        """Return whether the step changes anything that is stored.

        The state of a new task that has only entered its first node need not be stored, because the
        next execution reaches the same state.
        """
        if result.rows or result.shared_keys or result.is_inner_changed:
            return True
        if result.is_frozen_changed:
            return True
        return self._stored_cursor is not None and self._stored_cursor != encode_json(
            to_cursor(state)
        )

    def build_advance(
        self,
        state: FlowState,
        result: StepResult,
        *,
        consumed_seqs: Sequence[int],
        then: ContinueTask | ParkTask | EndTask,
        cancelled_ids: Sequence[RunId] = (),
    ) -> AdvanceFlow:
        """Return the command that stores a step. Raise TooLarge if a part of the step is too large.

        `cancelled_ids` are the ids of children whose outcome is no longer needed.
        """
        run_id = self._claim.run_id
        rows = tuple([_check_row_size(to_row(run_id, row)) for row in result.rows])
        # A node usually writes its output to the shared state, so the encoded text is reused.
        texts = {id(row.output): text.output for row, text in zip(result.rows, rows, strict=True)}
        added: list[SharedValue] = []
        changed: list[SharedValue] = []
        removed: list[tuple[RunId, str]] = []
        self._pending_sizes = {}
        for key in sorted(result.shared_keys):
            name = encode_json(key)
            if key in state.shared:
                member = state.shared[key]
                value = texts.get(id(member)) or encode_json(member)
                self._pending_sizes[key] = _member_size(name, value)
                (changed if key in self._sizes else added).append(SharedValue(run_id, name, value))
            elif key in self._sizes:
                self._pending_sizes[key] = None
                removed.append((run_id, name))
        self._pending_growth = sum(
            [(size or 0) - self._sizes.get(key, 0) for key, size in self._pending_sizes.items()]
        )
        if self._pending_sizes and self._size + self._pending_growth > BYTE_COUNT_MAX:
            raise TooLarge("shared state", _TOO_LARGE)
        columns = _build_columns(state, result, then)
        self._pending_cursor: str = columns["standing"]
        return AdvanceFlow(
            claim=self._claim,
            parent_id=self._parent_id,
            columns=columns,
            shared_added=tuple(added),
            shared_changed=tuple(changed),
            shared_removed=tuple(removed),
            node_run_rows=rows,
            consumed_seqs=tuple(consumed_seqs),
            cancel_child_ids=tuple(cancelled_ids),
            next_action=then,
        )

    def mark_stored(self) -> None:
        """Record that the step of the last `build_advance` is committed."""
        self._size += self._pending_growth
        for key, size in self._pending_sizes.items():
            if size is None:
                del self._sizes[key]
            else:
                self._sizes[key] = size
        self._stored_cursor = self._pending_cursor


def measure_signal(shared: SharedState, key: str, value: Document) -> SharedStateUsage:
    """Return the size that the shared state has with this signal and all unread signals.

    Each unread signal counts in full, as it is stored, although one signal may replace another.
    """
    sizes = {name: _member_size(encode_json(name), text) for name, text in shared.members.items()}
    sizes[key] = _member_size(encode_json(key), value)
    size = _BRACES_SIZE + sum(sizes.values()) + sum(map(byte_count, shared.signals))
    return SharedStateUsage(size, shared.seq)


def _member_size(name: str, value: str) -> int:
    """Return the size of a member of the shared state in bytes, with its colon and comma."""
    return byte_count(name) + byte_count(value) + 2


def _check_row_size(row: NodeRunRow) -> NodeRunRow:
    for field, text in (("input", row.input), ("output", row.output)):
        if byte_count(text) > BYTE_COUNT_MAX:
            raise TooLarge(f"{field} of node {row.node_key!r}", _TOO_LARGE)
    return row


def _build_columns(
    state: FlowState, result: StepResult, then: ContinueTask | ParkTask | EndTask
) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "node": state.frames[0].node.key,
        "standing": encode_json(to_cursor(state)),
        "waits_for": then.kind if isinstance(then, ParkTask) else None,
    }
    if result.is_inner_changed:
        inner = [frame.shared for frame in state.frames[1:]]
        text = encode_json(inner) if inner else None
        if text is not None and byte_count(text) > BYTE_COUNT_MAX:
            raise TooLarge("subflow's shared state", _TOO_LARGE)
        columns["inner_shared"] = text
    if result.is_frozen_changed:
        frozen = state.frozen_input
        columns["frozen_input"] = None if frozen is None else encode_json(list(frozen))
    return columns


def to_stored_state(stored: StoredTask) -> StoredState | None:
    """Return the stored state of a task, or None if no step of the task is stored."""
    task = stored.flow_run
    if task.standing is None:
        return None
    return StoredState(
        json.loads(task.standing),
        {key: json.loads(value) for key, value in stored.shared.items()},
        [] if task.inner_shared is None else json.loads(task.inner_shared),
        None if task.frozen_input is None else json.loads(task.frozen_input),
    )
