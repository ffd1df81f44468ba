"""Paths, expressions and actions, implemented a second time and plainly, for `reference.py`."""

import json
import re
from typing import Any

Json = dict[str, Any]


def find_callee(node: Json, index: int, merged: Json | None = None) -> tuple[str, str]:
    if node["kind"] == "parallel":
        return "service", (node.get("parallel_services") or (merged or {})["services"])[index]
    kind = next(kind for kind in ("service", "function", "flow") if node.get(kind))
    return kind, node[kind]


def build_input(node: Json, merged: Json, params: Json, shared: Json) -> Any:
    prep = node.get("prep") or {}
    outer = params.get("input")
    if "input_map" in prep:
        return {key: read_path(at, merged, shared, outer) for key, at in prep["input_map"].items()}
    return read_path(prep["input_key"], merged, shared, outer) if "input_key" in prep else None


def read_path(path: Any, merged: Json, shared: Json, node_input: Any) -> Any:
    """Read a path step by step from its text."""
    if not path.startswith("$"):
        return shared.get(path)
    root, _, rest = path.replace("[", ".[").partition(".")
    value = {"$params": merged, "$shared": shared, "$input": node_input}[root]
    for name in rest.split(".") if rest else []:
        if name.startswith("["):
            at = int(name[1:-1])
            value = value[at] if isinstance(value, list) and at < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def keyed_action(node: Json, output: Any, merged: Json, shared: Json, node_input: Any) -> str:
    key = node.get("post", {}).get("action_key")
    if not key:
        return ""
    if key.startswith("$"):
        candidates = [read_path(key, merged, shared, node_input)]
    else:
        candidates = [output.get(key) if isinstance(output, dict) else None, shared.get(key)]
    return next(
        (candidate for candidate in candidates if isinstance(candidate, str) and candidate), ""
    )


def mapped_action(node: Json, error: str) -> str:
    mapping = node.get("on_error") or {}
    if isinstance(mapping, str):
        return mapping
    action = mapping.get(error) or mapping.get(error.split(":", maxsplit=1)[0]) or mapping.get("*")
    return action or ""


def holds(expression: Json, merged: Json, shared: Json, node_input: Any) -> bool:
    [(name, operand)] = expression.items()

    def resolve(operand: Any) -> Any:
        prefixes = ("$params.", "$shared.", "$input")
        is_path = isinstance(operand, str) and operand.startswith(prefixes)
        return read_path(operand, merged, shared, node_input) if is_path else operand

    if name in ("and", "or"):
        joined = [holds(operand_part, merged, shared, node_input) for operand_part in operand]
        return all(joined) if name == "and" else any(joined)
    if name == "not":
        return not holds(operand, merged, shared, node_input)
    if name == "exists":
        return resolve(operand) is not None
    if name == "contains":
        return holds({"in": operand[::-1]}, merged, shared, node_input)
    left, right = (resolve(operand_part) for operand_part in operand)
    if name == "in":
        if isinstance(right, list):
            return any(compare("eq", left, operand_part) for operand_part in right)
        is_plain = left is not None and not isinstance(left, list | dict)
        return is_plain and isinstance(right, str | dict) and to_text(left) in right
    return compare(name, left, right)


def compare(name: str, left: Any, right: Any) -> bool:
    if left is None or right is None:
        is_equal = left is None and right is None
        return not is_equal if name == "ne" else is_equal and name in ("eq", "le", "ge")
    numbers = [to_number(left), to_number(right)]
    first, second = (to_text(left), to_text(right)) if None in numbers else numbers
    return {
        "eq": first == second, "ne": first != second, "gt": first > second,
        "lt": first < second, "ge": first >= second, "le": first <= second,
    }[name]  # fmt: skip


def to_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return re.sub(r"([0-9])\.0(?![0-9])", r"\1", text)
