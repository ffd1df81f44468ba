"""Paths, expressions and actions, a second time: as plainly as can be, for `reference.py`."""

import json
import re
from typing import Any

Json = dict[str, Any]


def callee_of(node: Json, index: int, merged: Json | None = None) -> tuple[str, str]:
    if node["kind"] == "parallel":
        return "service", (node.get("parallel_services") or (merged or {})["services"])[index]
    kind = next(kind for kind in ("service", "function", "flow") if node.get(kind))
    return kind, node[kind]


def prepared(node: Json, merged: Json, params: Json, shared: Json) -> Any:
    prep = node.get("prep") or {}
    outer = params.get("input")
    if "input_map" in prep:
        return {key: found(at, merged, shared, outer) for key, at in prep["input_map"].items()}
    return found(prep["input_key"], merged, shared, outer) if "input_key" in prep else None


def found(path: Any, merged: Json, shared: Json, given: Any) -> Any:
    """A path, read step by step from its text."""
    if not path.startswith("$"):
        return shared.get(path)
    root, _, rest = path.replace("[", ".[").partition(".")
    value = {"$params": merged, "$shared": shared, "$input": given}[root]
    for name in rest.split(".") if rest else []:
        if name.startswith("["):
            at = int(name[1:-1])
            value = value[at] if isinstance(value, list) and at < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def keyed_action(node: Json, output: Any, merged: Json, shared: Json, given: Any) -> str:
    key = node.get("post", {}).get("action_key")
    if not key:
        return ""
    if key.startswith("$"):
        candidates = [found(key, merged, shared, given)]
    else:
        candidates = [output.get(key) if isinstance(output, dict) else None, shared.get(key)]
    return next((one for one in candidates if isinstance(one, str) and one), "")


def mapped_action(node: Json, error: str) -> str:
    mapping = node.get("on_error") or {}
    if isinstance(mapping, str):
        return mapping
    found_action = (
        mapping.get(error) or mapping.get(error.split(":", maxsplit=1)[0]) or mapping.get("*")
    )
    return found_action or ""


def holds(expression: Json, merged: Json, shared: Json, given: Any) -> bool:
    [(name, operand)] = expression.items()

    def valued(one: Any) -> Any:
        prefixes = ("$params.", "$shared.", "$input")
        is_path = isinstance(one, str) and one.startswith(prefixes)
        return found(one, merged, shared, given) if is_path else one

    if name in ("and", "or"):
        joined = [holds(one, merged, shared, given) for one in operand]
        return all(joined) if name == "and" else any(joined)
    if name == "not":
        return not holds(operand, merged, shared, given)
    if name == "exists":
        return valued(operand) is not None
    if name == "contains":
        return holds({"in": operand[::-1]}, merged, shared, given)
    left, right = (valued(one) for one in operand)
    if name == "in":
        if isinstance(right, list):
            return any(compared("eq", left, one) for one in right)
        is_plain = left is not None and not isinstance(left, list | dict)
        return is_plain and isinstance(right, str | dict) and texted(left) in right
    return compared(name, left, right)


def compared(name: str, left: Any, right: Any) -> bool:
    if left is None or right is None:
        is_equal = left is None and right is None
        return not is_equal if name == "ne" else is_equal and name in ("eq", "le", "ge")
    numbers = [numbered(left), numbered(right)]
    one, other = (texted(left), texted(right)) if None in numbers else numbers
    return {
        "eq": one == other, "ne": one != other, "gt": one > other,
        "lt": one < other, "ge": one >= other, "le": one <= other,
    }[name]  # fmt: skip


def numbered(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def texted(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return re.sub(r"([0-9])\.0(?![0-9])", r"\1", text)
