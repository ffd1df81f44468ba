"""Expressions: read once, when a flow is published, into a program for a small stack machine.

Neither reading nor evaluation recurses, so that no definition can exhaust the stack.
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
    """Of a leaf: paths and literals."""
    arity: int
    """Of `and`, `or` and `not`: how many results it takes from the stack."""


@dataclass(frozen=True, slots=True)
class Predicate:
    source: Any
    """The expression as the definition has it."""
    program: tuple[Instruction, ...]

    def evaluate(self, scope: PathScope) -> bool:
        stack: list[bool] = []
        for instruction in self.program:
            arity = instruction.arity
            if not arity:
                stack.append(_evaluate_leaf(instruction, scope))
                continue
            taken = stack[-arity:]
            del stack[-arity:]
            match instruction.operator:
                case "and":
                    stack.append(all(taken))
                case "or":
                    stack.append(any(taken))
                case _:
                    stack.append(not taken[0])
        return stack[0]


def parse_predicate(source: Any, place: str, report: Diagnostics) -> Predicate:
    """The program of an expression. It is of use only when nothing was reported."""
    backwards: list[Instruction] = []
    waiting: list[tuple[Any, str, int]] = [(source, place, 1)]
    node_count = 0
    while waiting:
        expression, where, depth = waiting.pop()
        node_count += 1
        if node_count > NODE_COUNT_MAX:
            report.add_error(place, f"has more than {NODE_COUNT_MAX:,} operators")
            break
        if depth > DEPTH_MAX:
            report.add_error(where, f"is nested deeper than {DEPTH_MAX} operators")
            continue
        name, operand = _parse_operator(expression, where, report)
        if name in _CONNECTIVES or name == "not":
            inner = [operand] if name == "not" else _parse_list(name, operand, where, report)
            inside = join_path(where, name)
            for index, one in enumerate(inner):
                at = inside if name == "not" else f"{inside}[{index}]"
                waiting.append((one, at, depth + 1))
            backwards.append(Instruction(name, (), len(inner)))
        elif name:
            operands = _parse_leaf(name, operand, where, report)
            backwards.append(Instruction(name, operands, 0))
    # Each operator came before its operands; the machine wants it after them.
    return Predicate(source, tuple(reversed(backwards)))


def _parse_operator(expression: Any, place: str, report: Diagnostics) -> tuple[str, Any]:
    if not isinstance(expression, dict) or len(expression) != 1:
        report.add_error(place, 'must be an object with one operator, such as {"eq": [a, b]}')
        return "", None
    [(name, operand)] = expression.items()
    if name not in OPERATORS:
        report.add_error(
            place, f"has no operator {quote_text(name)}; there is {', '.join(OPERATORS)}"
        )
        return "", None
    return name, operand


def _parse_list(name: str, operand: Any, place: str, report: Diagnostics) -> list[Any]:
    if isinstance(operand, list) and operand:
        return operand
    report.add_error(join_path(place, name), "must be a list of one expression or more")
    return []


def _parse_leaf(name: str, operand: Any, place: str, report: Diagnostics) -> tuple[Any, ...]:
    place = join_path(place, name)
    if name == "exists":
        if not isinstance(operand, str) or not is_reference(operand):
            report.add_error(place, "must be a path that begins with $params., $shared. or $input")
            return ()
        return (_parse_operand(operand, place, report),)
    if not isinstance(operand, list) or len(operand) != 2:
        report.add_error(place, "must be a list of two values")
        return ()
    return tuple(_parse_operand(one, f"{place}[{at}]", report) for at, one in enumerate(operand))


def _parse_operand(value: Any, place: str, report: Diagnostics) -> Any:
    if not isinstance(value, str) or not is_reference(value):
        return value
    try:
        return parse_path(value)
    except BadPath as error:
        report.add_error(place, str(error))
        return None


def _evaluate_leaf(instruction: Instruction, scope: PathScope) -> bool:
    values = [resolve(one, scope) if isinstance(one, Path) else one for one in instruction.operands]
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
    """Compare as numbers if both are numbers or numeric strings, else as text.

    Null equals only null: `eq`, `le` and `ge` of two nulls are true. Null has no other order.
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
            return any(compare("eq", value, one) for one in collection)
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
    found = _NUMBER.match(value)
    if found is None:
        return None
    if found.lastindex is None:
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(_normalize_numbers(value))


def _normalize_numbers(value: Any) -> Any:
    """2.0 as 2, within lists and objects too. Documents are never deep, so this may recurse."""
    match value:
        case float():
            return int(value) if value.is_integer() else value
        case list():
            return [_normalize_numbers(one) for one in value]
        case dict():
            return {name: _normalize_numbers(one) for name, one in value.items()}
        case _:
            return value


_encode: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
