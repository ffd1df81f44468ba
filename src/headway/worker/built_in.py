"""Services that every worker has (R5.7)."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from headway.worker.service_registry import ServiceError, Services

builtin_services: Final = Services()
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BAD_INPUT: Final = "bad input"


@builtin_services
async def transform(given: Any, params: Mapping[str, Any]) -> Any:
    """Text in upper or lower case, by `op`; a number times `mul`."""
    if isinstance(given, str):
        match params.get("op"):
            case "upper":
                return given.upper()
            case "lower":
                return given.lower()
            case _:
                raise ServiceError("unsupported op")
    factor = params.get("mul", 1)
    if _is_number(given) and _is_number(factor):
        return given * factor
    raise ServiceError(_BAD_INPUT)


async def add_up(given: Any) -> Any:
    """The numbers of a list, those that are written as text too; what else is in it is skipped."""
    if not isinstance(given, list):
        raise ServiceError(_BAD_INPUT)
    return sum(number for one in given if (number := _parse_number(one)) is not None)


builtin_services(add_up, name="sum")


@builtin_services
async def route(given: Any, params: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    return {"action": params.get("action") or "goB"}


@builtin_services
async def echo(given: Any) -> Any:
    return given


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parse_number(value: Any) -> int | float | None:
    if _is_number(value):
        found: int | float = value
        return found
    if not isinstance(value, str):
        return None
    if _NUMBER.fullmatch(value) is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
