"""Documents: JSON that every store keeps unchanged, or that none accepts.

A document is encoded once, at the door, and travels as text from then on. What some database would
refuse or alter (NaN, lone surrogates, NUL) is refused here, so that all of them behave alike.
"""

import json
import math
import re
from collections import Counter
from enum import StrEnum
from typing import Any, Final, NewType, TypeVar

from headway.core.errors import InvalidInput, TooLarge

E = TypeVar("E", bound=StrEnum)
Document = NewType("Document", str)
"""JSON text that `encode_document` has made."""

DEPTH_MAX: Final = 64
BYTE_COUNT_MAX: Final = 1 << 20
NAME_LENGTH_MAX: Final = 255
EMPTY_OBJECT: Final = Document("{}")
NULL: Final = Document("null")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_DIGIT_COUNT_MAX: Final = 400
_ESCAPED_NUL: Final = "\\u0000"
_CONTAINERS: Final = (dict, list, tuple)
_encode: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=True, separators=(",", ":")
).encode


def encode_document(value: object, *, field: str, byte_count_max: int = BYTE_COUNT_MAX) -> Document:
    """`value` as JSON text, or InvalidInput that names the place of the first fault."""
    if value is None:  # Most jobs return nothing.
        return NULL
    try:
        text = _encode(value)
        size = byte_count(text)
    except (TypeError, ValueError, RecursionError):
        fault_place, problem = _first_error(value, field)
        raise InvalidInput(fault_place, problem) from None
    if size > byte_count_max:
        raise TooLarge(field, f"is {size:,} bytes; the limit is {byte_count_max:,}")
    # Cheap tests first: only a suspicious document is walked with its places.
    is_deep = text.count("[") + text.count("{") > DEPTH_MAX
    if _ESCAPED_NUL in text or is_deep or ("{" in text and not _has_text_names(value)):
        fault = _find_error(value, field)
        if fault is not None:
            raise InvalidInput(*fault)
    return Document(text)


def decode_document(
    text: str, *, field: str, byte_count_max: int = BYTE_COUNT_MAX, depth_max: int = DEPTH_MAX
) -> Any:
    """What strict JSON text holds (S6), or InvalidInput that names the place of the first fault.

    A name that comes twice, NaN, a number beyond all range and a lone surrogate are faults.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > byte_count_max:
        raise TooLarge(field, f"is {size:,} bytes; the limit is {byte_count_max:,}")
    try:
        value = _decode(text)
    except RecursionError:
        raise InvalidInput(field, f"is nested deeper than {depth_max} levels") from None
    except ValueError as error:
        raise InvalidInput(field, f"is not strict JSON: {error}") from None
    check_value(value, field=field, depth_max=depth_max)
    return value


def byte_count(text: str) -> int:
    """In UTF-8; UnicodeEncodeError, which is a ValueError, for a lone surrogate."""
    return len(text) if text.isascii() else len(text.encode())


def check_value(value: object, *, field: str, depth_max: int = DEPTH_MAX) -> None:
    """InvalidInput that names the first place at which `value` is not storable JSON."""
    fault = _find_error(value, field, depth_max)
    if fault is not None:
        raise InvalidInput(*fault)


def check_name(name: str, *, field: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """`name` trimmed, if it is 1 to 255 storable characters; else InvalidInput."""
    if not isinstance(name, str):
        raise InvalidInput(field, "must be text")
    trimmed = name.strip()
    if not trimmed:
        raise InvalidInput(field, "must not be empty")
    return check_text(trimmed, field=field, length_max=length_max)


def parse_enum(kind: type[E], word: str, *, field: str) -> E:
    """The member of `kind` that `word` names; else InvalidInput lists what there is."""
    try:
        return kind(word)
    except ValueError:
        raise InvalidInput(field, f"must be one of: {', '.join(kind)}") from None


def check_text(text: str, *, field: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """`text` as it is, if it is storable and no longer than that; else InvalidInput."""
    if not isinstance(text, str):
        raise InvalidInput(field, "must be text")
    if len(text) > length_max:
        raise InvalidInput(field, f"is {len(text):,} characters; the limit is {length_max}")
    if _UNSTORABLE.search(text):
        raise InvalidInput(field, "contains NUL or a lone surrogate")
    return text


def replace_unstorable(text: str) -> str:
    """`text` with NUL and lone surrogates replaced, which `check_text` refuses."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise ValueError(f"the name {twice!r} comes twice in one object")
    return members


def _parse_int(digits: str) -> int:
    if len(digits) > _DIGIT_COUNT_MAX:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is beyond the range of numbers")
    return number


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_parse_object,
    parse_int=_parse_int,
    parse_float=_parse_float,
    parse_constant=_reject_constant,
).decode


def _has_text_names(value: object) -> bool:
    """False when some object has a name that JSON would silently turn into text, such as 1."""
    waiting: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if not all([isinstance(name, str) for name in item]):  # noqa: C419 - Twice as fast.
                return False
            item = item.values()
        waiting += [member for member in item if isinstance(member, _CONTAINERS)]
    return True


def _first_error(value: object, place: str) -> tuple[str, str]:
    return _find_error(value, place) or (place, "cannot be written as JSON")


def _find_error(value: object, place: str, depth_max: int = DEPTH_MAX) -> tuple[str, str] | None:
    """Walk without recursion; the deepest document we accept is far below Python's own limit."""
    waiting: list[tuple[object, str, int]] = [(value, place, 1)]
    while waiting:
        item, where, depth = waiting.pop()
        match item:
            case dict() | list() | tuple() if depth > depth_max:
                return where, f"is nested deeper than {depth_max} levels"
            case None | bool() | int():
                continue
            case float():
                if not math.isfinite(item):
                    return where, "is not a finite number"
            case str():
                if _UNSTORABLE.search(item):
                    return where, "contains NUL or a lone surrogate"
            case dict():
                for name, member in item.items():
                    if not isinstance(name, str):
                        return where, f"has the name {name!r}, which is not text"
                    if _UNSTORABLE.search(name):
                        return where, "has a name with NUL or a lone surrogate"
                    waiting.append((member, f"{where}.{name}", depth + 1))
            case list() | tuple():
                waiting.extend((m, f"{where}[{i}]", depth + 1) for i, m in enumerate(item))
            case _:
                return where, f"is a {type(item).__name__}, which JSON cannot hold"
    return None
