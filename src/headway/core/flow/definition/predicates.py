"""Expressions, compiled when a flow is published into a program for a small stack machine.

Neither parsing nor evaluation recurses, so no definition can exhaust the stack.
"""

import json
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headway.core.flow.definition.diagnostics import Diagnostics, join_path, quote_text
from headway.core.flow.definition.paths import (
    BadPath,
    Path,
    PathScope,
    is_reference,
    parse_path,
    resolve,
)

DEPTH_MAX: Final = 32
NODE_COUNT_MAX: Final = 1_000
_CONNECTIVES: Final = ("and", "or")
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "lt": operator.lt,
    "ge": operator.ge,
    "le": operator.le,
}
OPERATORS: Final = (*_CONNECTIVES, "not", *_COMPARISONS, "exists", "in", "contains")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_NUMBER_LENGTH_MAX: Final = 400


class Instruction(NamedTuple):
    operator: str
    operands: tuple[Any, ...]
    """The paths and literals of a leaf. Empty for `and`, `or` and `not`."""
    arity: int
    """The number of results that `and`, `or` or `not` takes from the stack. 0 for a leaf."""


@dataclass(frozen=True, slots=True)
class Predicate:
    source: Any
    """The expression as written in the definition."""
    program: tuple[Instruction, ...]

    def evaluate(self, scope: PathScope) -> bool:
        stack: list[bool] = []
        for instruction in self.program:
            arity = instruction.arity
            if not arity:
                stack.append(_evaluate_leaf(instruction, scope))
                continue
            results = stack[-arity:]
            del stack[-arity:]
            match instruction.operator:
                case "and":
                    stack.append(all(results))
                case "or":
                    stack.append(any(results))
                case _:
                    stack.append(not results[0])
        return stack[0]


def parse_predicate(source: Any, path: str, diagnostics: Diagnostics) -> Predicate:
    """Compile an expression. The result is usable only if no error was reported."""
    reversed_program: list[Instruction] = []
    pending: list[tuple[Any, str, int]] = [(source, path, 1)]
    node_count = 0
    while pending:
        expression, expression_path, depth = pending.pop()
        node_count += 1
        if node_count > NODE_COUNT_MAX:
            diagnostics.add_error(path, f"has more than {NODE_COUNT_MAX:,} operators; split it")
            break
        if depth > DEPTH_MAX:
            diagnostics.add_error(
                expression_path, f"is nested deeper than {DEPTH_MAX} operators; simplify it"
            )
            continue
        name, operand = _parse_operator(expression, expression_path, diagnostics)
        if name in _CONNECTIVES or name == "not":
            inner_expressions = (
                [operand]
                if name == "not"
                else _parse_list(name, operand, expression_path, diagnostics)
            )
            operator_path = join_path(expression_path, name)
            for index, inner_expression in enumerate(inner_expressions):
                inner_path = operator_path if name == "not" else f"{operator_path}[{index}]"
                pending.append((inner_expression, inner_path, depth + 1))
            reversed_program.append(Instruction(name, (), len(inner_expressions)))
        elif name:
            operands = _parse_leaf(name, operand, expression_path, diagnostics)
            reversed_program.append(Instruction(name, operands, 0))
    # Each operator was appended before its operands; the machine evaluates it after them.
    return Predicate(source, tuple(reversed(reversed_program)))


def _parse_operator(expression: Any, path: str, diagnostics: Diagnostics) -> tuple[str, Any]:
    if not isinstance(expression, dict) or len(expression) != 1:
        diagnostics.add_error(path, 'must be an object with one operator, such as {"eq": [a, b]}')
        return "", None
    [(name, operand)] = expression.items()
    if name not in OPERATORS:
        diagnostics.add_error(
            path, f"has the unknown operator {quote_text(name)}; use one of: {', '.join(OPERATORS)}"
        )
        return "", None
    return name, operand


def _parse_list(name: str, operand: Any, path: str, diagnostics: Diagnostics) -> list[Any]:
    if isinstance(operand, list) and operand:
        return operand
    diagnostics.add_error(join_path(path, name), "must be a list of at least one expression")
    return []


def _parse_leaf(name: str, operand: Any, path: str, diagnostics: Diagnostics) -> tuple[Any, ...]:
    path = join_path(path, name)
    if name == "exists":
        if not isinstance(operand, str) or not is_reference(operand):
            diagnostics.add_error(
                path, "must be a path that begins with $params., $shared. or $input"
            )
            return ()
        return (_parse_operand(operand, path, diagnostics),)
    if not isinstance(operand, list) or len(operand) != 2:
        diagnostics.add_error(path, "must be a list of two values")
        return ()
    return tuple(
        _parse_operand(value, f"{path}[{index}]", diagnostics)
        for index, value in enumerate(operand)
    )


def _parse_operand(value: Any, path: str, diagnostics: Diagnostics) -> Any:
    if not isinstance(value, str) or not is_reference(value):
        return value
    try:
        return parse_path(value)
    except BadPath as error:
        diagnostics.add_error(path, str(error))
        return None


def _evaluate_leaf(instruction: Instruction, scope: PathScope) -> bool:
    values = [
        resolve(operand, scope) if isinstance(operand, Path) else operand
        for operand in instruction.operands
    ]
    match instruction.operator:
        case "exists":
            return values[0] is not None
        case "in":
            return _is_member(values[0], values[1])
        case "contains":
            return _is_member(values[1], values[0])
        case comparison:
            return compare(comparison, values[0], values[1])


def compare(name: str, left: Any, right: Any) -> bool:
    """Compare two values: as numbers if both are numbers or numeric strings, else as text.

    For two nulls `eq`, `le` and `ge` are true. For null and another value only `ne` is true.
    """
    if left is None or right is None:
        is_equal = left is right
        return not is_equal if name == "ne" else is_equal and name in ("eq", "le", "ge")
    left_number, right_number = _as_number(left), _as_number(right)
    if left_number is not None and right_number is not None:
        return _COMPARISONS[name](left_number, right_number)
    return _COMPARISONS[name](_as_text(left), _as_text(right))


def _is_member(value: Any, collection: Any) -> bool:
    match collection:
        case list():
            return any(compare("eq", value, member) for member in collection)
        case str() | dict():
            is_single = value is not None and not isinstance(value, list | dict)
            return is_single and _as_text(value) in collection
        case _:
            return False


def _as_number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str) or len(value) > _NUMBER_LENGTH_MAX:
        return None
    match = _NUMBER.match(value)
    if match is None:
        return None
    if match.lastindex is None:
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(_normalize_numbers(value))


def _normalize_numbers(value: Any) -> Any:
    """Replace whole floats by integers, such as 2.0 by 2, also within lists and objects.

    The function may recurse, because the depth of documents is limited.
    """
    match value:
        case float():
            return int(value) if value.is_integer() else value
        case list():
            return [_normalize_numbers(item) for item in value]
        case dict():
            return {name: _normalize_numbers(member) for name, member in value.items()}
        case _:
            return value


_encode: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
