"""The services that every worker offers (R5.7)."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from headway.worker.service_registry import ServiceError, Services

builtin_services: Final = Services()
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BAD_INPUT: Final = "bad input"


@builtin_services
async def transform(value: Any, params: Mapping[str, Any]) -> Any:
    """Convert text to the case that `op` names, or multiply a number by `mul`."""
    if isinstance(value, str):
        match params.get("op"):
            case "upper":
                return value.upper()
            case "lower":
                return value.lower()
            case _:
                raise ServiceError("unsupported op")
    factor = params.get("mul", 1)
    if _is_number(value) and _is_number(factor):
        return value * factor
    raise ServiceError(_BAD_INPUT)


async def add_up(items: Any) -> Any:
    """Return the sum of the numbers in a list. They may be written as text. Skip other items."""
    if not isinstance(items, list):
        raise ServiceError(_BAD_INPUT)
    return sum(number for item in items if (number := _parse_number(item)) is not None)


builtin_services(add_up, name="sum")


@builtin_services
async def route(value: Any, params: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    return {"action": params.get("action") or "goB"}


@builtin_services
async def echo(value: Any) -> Any:
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parse_number(value: Any) -> int | float | None:
    if _is_number(value):
        number: int | float = value
        return number
    if not isinstance(value, str):
        return None
    if _NUMBER.fullmatch(value) is None:
        return None
    parsed = float(value)
    if not math.isfinite(parsed):
        return None
    return int(parsed) if parsed.is_integer() and abs(parsed) < 2**53 else parsed
