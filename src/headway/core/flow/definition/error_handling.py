"""Check that failures are handled, and that inputs that resemble paths are paths.

Under `ErrorPolicy.FAIL` a definition is refused if an input would silently be null. Under
`ErrorPolicy.FOLLOW_DEFAULT` there is only a warning, because existing programs publish such
definitions.
"""

from collections.abc import Iterator
from typing import Final

from headway.core.flow.definition.definition import (
    ANY_ERROR,
    AWAITED_PATH_PARAMS,
    BRANCHING_KINDS,
    CALLING_KINDS,
    DEFAULT,
    END,
    ERROR,
    ErrorPolicy,
    FailureStrategy,
    Flow,
    Kind,
    Node,
)
from headway.core.flow.definition.diagnostics import Diagnostics, join_path, quote_text
from headway.core.flow.definition.graph import iter_flows
from headway.core.flow.definition.paths import BadPath, Path, parse_path

_FALLIBLE_KINDS: Final = CALLING_KINDS | {Kind.SUBFLOW}


def check_error_handling(flow: Flow, diagnostics: Diagnostics) -> None:
    """Report nodes without an edge for their failures, and bare names that resemble paths."""
    signal_keys = {
        key
        for _, inner in iter_flows(flow)
        for node in inner.nodes.values()
        for key in _signal_keys(node)
    }
    for flow_path, inner in iter_flows(flow):
        # A signal always sets a key of the task's own shared state, even if a subflow waits for it.
        written = {key for node in inner.nodes.values() for key in _written_keys(node)}
        readable = written if flow_path else written | signal_keys
        for node in inner.nodes.values():
            node_path = join_path(join_path(flow_path, "nodes"), node.key)
            _check_input_names(
                node, node_path, readable, diagnostics, is_strict=flow.fails_on_error
            )
            if flow.error_policy is ErrorPolicy.FOLLOW_DEFAULT:
                _warn_of_swallowed(node, node_path, diagnostics)
            else:
                _warn_of_dead_actions(node, node_path, diagnostics)


def _signal_keys(node: Node) -> Iterator[str]:
    """Yield the shared-state key that the node waits for, if it waits for a whole key."""
    text = node.params.get(AWAITED_PATH_PARAMS.get(node.kind, ""))
    if not isinstance(text, str):
        return
    try:
        key = parse_path(text).exact_key
    except BadPath:
        return
    if key is not None:
        yield key


def _written_keys(node: Node) -> Iterator[str]:
    post = node.post
    yield from (key for key in (post.output_key, post.error_key) if key)
    yield from post.output_map or ()


def _check_input_names(
    node: Node, node_path: str, written: set[str], diagnostics: Diagnostics, *, is_strict: bool
) -> None:
    prep_path = join_path(node_path, "prep")
    inputs: dict[str, Path] = {}
    if node.prep.input_key is not None:
        inputs[join_path(prep_path, "input_key")] = node.prep.input_key
    for name, source in (node.prep.input_map or {}).items():
        inputs[join_path(join_path(prep_path, "input_map"), name)] = source
    for input_path, source in inputs.items():
        text = source.text
        if text.startswith("$") or not set(text) & {".", "["} or text in written:
            continue
        problem = (
            f"is the bare name {quote_text(text)}, which no node writes, so it would be null;"
            f" for a path, write {quote_text(f'$shared.{text}')} or {quote_text(f'$params.{text}')}"
        )
        (diagnostics.add_error if is_strict else diagnostics.add_warning)(input_path, problem)


def _warn_of_swallowed(node: Node, node_path: str, diagnostics: Diagnostics) -> None:
    """Warn if the task would follow the node's success edge although the node failed."""
    target = _target_after_failure(node)
    if target is None:
        return
    effect = "ends the task as a success" if target == END else f"continues to {quote_text(target)}"
    if node.kind in BRANCHING_KINDS:
        problem = f'{effect} after a failed branch: set on_error, or error_policy to "fail"'
    else:
        problem = (
            f'{effect} after a failure too: add an `error` edge, or set error_policy to "fail"'
        )
    diagnostics.add_warning(node_path, problem)


def _target_after_failure(node: Node) -> str | None:
    """Return the target of the success edge that the task follows although the node failed.

    Return None if the node has an edge for the failure, if the failure fails the task, or if the
    node cannot fail.
    """
    edges = node.edges
    if ANY_ERROR in node.on_error and node.on_error[ANY_ERROR] in edges:
        return None
    if node.kind in BRANCHING_KINDS and node.failure_strategy is FailureStrategy.FAIL_FAST:
        # The task follows the node's ordinary action, so its `error` edge has no effect.
        ordinary = node.post.action_static or node.default_action or DEFAULT
        target = edges.get(ordinary, edges.get(DEFAULT))
        is_ended = target == END and ordinary not in edges
        return None if is_ended else target
    has_timeout = bool(node.timeout_ms or node.params.get("timeout_ms"))
    may_fail = node.kind in _FALLIBLE_KINDS or (node.kind in AWAITED_PATH_PARAMS and has_timeout)
    if not may_fail or ERROR in edges:
        return None
    return edges.get(DEFAULT) or None


def _warn_of_dead_actions(node: Node, node_path: str, diagnostics: Diagnostics) -> None:
    """Warn about actions in `on_error` for which the node has no edge."""
    for error, action in node.on_error.items():
        if action not in node.edges:
            outcome = "follows the `error` edge" if ERROR in node.edges else "fails the task"
            action_path = join_path(join_path(node_path, "on_error"), error)
            problem = (
                f"there is no edge for {quote_text(action)}, so the failure {outcome};"
                " add the edge or change the action"
            )
            diagnostics.add_warning(action_path, problem)
