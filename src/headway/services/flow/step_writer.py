"""What of a task is stored already, and what a step adds to it."""

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
"""Two braces, and the comma that the last member has not."""
_TOO_LARGE: Final = f"is more than {BYTE_COUNT_MAX:,} bytes"


class StepWriter:
    """Only for the holder of the claim: nobody else writes what it remembers."""

    def __init__(self, claim: Claim, parent_id: RunId | None) -> None:
        self._claim = claim
        self._parent_id = parent_id
        self._sizes: dict[str, int] = {}
        """Of the members of the shared state that are stored: name and value, in bytes."""
        self._size = _BRACES_SIZE
        """Of all of it, as the result of the task will be."""
        self._pending_sizes: dict[str, int | None] = {}
        """Those that the step changes, as they will be; None: it will be gone."""
        self._pending_growth = 0
        """How much larger the shared state becomes by it."""
        self._stored_cursor: str | None = None

    def load(self, kept: StoredTask) -> None:
        self._sizes = {
            key: _member_size(encode_json(key), value) for key, value in kept.shared.items()
        }
        self._size = _BRACES_SIZE + sum(self._sizes.values())
        self._stored_cursor = kept.flow_run.standing

    def has_changes(self, state: FlowState, commit: StepResult) -> bool:
        """Whether the step changes anything of what is stored.

        A new task that has only entered its first node comes to that again by itself.
        """
        if commit.rows or commit.shared_keys or commit.is_inner_changed:
            return True
        if commit.is_frozen_changed:
            return True
        return self._stored_cursor is not None and self._stored_cursor != encode_json(
            to_cursor(state)
        )

    def build_advance(
        self,
        state: FlowState,
        commit: StepResult,
        *,
        consumed_seqs: Sequence[int],
        then: ContinueTask | ParkTask | EndTask,
        cancelled_ids: Sequence[RunId] = (),
    ) -> AdvanceFlow:
        """The command that stores the step. TooLarge when a part of it is more than may be.

        `cancelled`: children for whose end nobody waits any more.
        """
        run_id = self._claim.run_id
        rows = tuple([_check_row_size(to_row(run_id, row)) for row in commit.rows])
        # Mostly the output of a node is what it writes there: it is encoded once.
        texts = {id(row.output): text.output for row, text in zip(commit.rows, rows, strict=True)}
        added: list[SharedValue] = []
        changed: list[SharedValue] = []
        removed: list[tuple[RunId, str]] = []
        self._pending_sizes = {}
        for key in sorted(commit.shared_keys):
            name = encode_json(key)
            if key in state.shared:
                found = state.shared[key]
                value = texts.get(id(found)) or encode_json(found)
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
        columns = _build_columns(state, commit, then)
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
        """The step is stored."""
        self._size += self._pending_growth
        for key, size in self._pending_sizes.items():
            if size is None:
                del self._sizes[key]
            else:
                self._sizes[key] = size
        self._stored_cursor = self._pending_cursor


def measure_signal(shared: SharedState, key: str, value: Document) -> SharedStateUsage:
    """What is there besides a signal, and the signal.

    What its driver has not taken in counts in full, as it is kept: one may yet replace another.
    """
    sizes = {one: _member_size(encode_json(one), text) for one, text in shared.members.items()}
    sizes[key] = _member_size(encode_json(key), value)
    size = _BRACES_SIZE + sum(sizes.values()) + sum(map(byte_count, shared.signals))
    return SharedStateUsage(size, shared.seq)


def _member_size(name: str, value: str) -> int:
    """With its colon and its comma."""
    return byte_count(name) + byte_count(value) + 2


def _check_row_size(row: NodeRunRow) -> NodeRunRow:
    for place, text in (("input", row.input), ("output", row.output)):
        if byte_count(text) > BYTE_COUNT_MAX:
            raise TooLarge(f"{place} of node {row.node_key!r}", _TOO_LARGE)
    return row


def _build_columns(
    state: FlowState, commit: StepResult, then: ContinueTask | ParkTask | EndTask
) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "node": state.frames[0].node.key,
        "standing": encode_json(to_cursor(state)),
        "waits_for": then.kind if isinstance(then, ParkTask) else None,
    }
    if commit.is_inner_changed:
        inner = [frame.shared for frame in state.frames[1:]]
        text = encode_json(inner) if inner else None
        if text is not None and byte_count(text) > BYTE_COUNT_MAX:
            raise TooLarge("subflow's shared state", _TOO_LARGE)
        columns["inner_shared"] = text
    if commit.is_frozen_changed:
        frozen = state.frozen_input
        columns["frozen_input"] = None if frozen is None else encode_json(list(frozen))
    return columns


def to_stored_state(kept: StoredTask) -> StoredState | None:
    """The parts of its state; None: it stands before its first node still."""
    task = kept.flow_run
    if task.standing is None:
        return None
    return StoredState(
        json.loads(task.standing),
        {key: json.loads(value) for key, value in kept.shared.items()},
        [] if task.inner_shared is None else json.loads(task.inner_shared),
        None if task.frozen_input is None else json.loads(task.frozen_input),
    )
