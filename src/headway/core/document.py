"""Documents: JSON that every database stores unchanged.

A document is encoded once, when it enters headway, and is text from then on. Values that a database
would refuse or alter (NaN, lone surrogates, NUL) are refused here, so that all databases behave
alike.
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
"""JSON text that `encode_document` has returned."""

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
    """Return `value` as JSON text.

    Raise InvalidInput with the path of the first error, or TooLarge.
    """
    if value is None:  # Most jobs return nothing.
        return NULL
    try:
        text = _encode(value)
        size = byte_count(text)
    except (TypeError, ValueError, RecursionError):
        path, problem = _first_error(value, field)
        raise InvalidInput(path, problem) from None
    if size > byte_count_max:
        raise TooLarge(field, f"is {size:,} bytes; the limit is {byte_count_max:,}")
    # Cheap tests first: only a suspicious document is walked to find the path of an error.
    is_deep = text.count("[") + text.count("{") > DEPTH_MAX
    if _ESCAPED_NUL in text or is_deep or ("{" in text and not _has_text_names(value)):
        error = _find_error(value, field)
        if error is not None:
            raise InvalidInput(*error)
    return Document(text)


def decode_document(
    text: str, *, field: str, byte_count_max: int = BYTE_COUNT_MAX, depth_max: int = DEPTH_MAX
) -> Any:
    """Parse strict JSON text, and return its value (S6).

    Raise InvalidInput with the path of the first error, or TooLarge. A duplicate name, NaN, a
    number out of range and a lone surrogate are errors.
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
    """Return the length of `text` in UTF-8. Raise UnicodeEncodeError for a lone surrogate."""
    return len(text) if text.isascii() else len(text.encode())


def check_value(value: object, *, field: str, depth_max: int = DEPTH_MAX) -> None:
    """Raise InvalidInput if a part of `value` cannot be stored.

    The error has the path of the first such part.
    """
    error = _find_error(value, field, depth_max)
    if error is not None:
        raise InvalidInput(*error)


def check_name(name: str, *, field: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """Return `name` trimmed. Raise InvalidInput if it is empty, too long or cannot be stored."""
    if not isinstance(name, str):
        raise InvalidInput(field, "must be text")
    trimmed = name.strip()
    if not trimmed:
        raise InvalidInput(field, "must not be empty")
    return check_text(trimmed, field=field, length_max=length_max)


def trim_names(command: object, *fields: str) -> None:
    """Check these fields of a new command, and replace each by its trimmed value.

    ` ann ` means `ann`. Raise InvalidInput if a field is not a valid name.
    """
    for name in fields:
        value = getattr(command, name)
        trimmed = check_name(value, field=name)
        if trimmed != value:
            object.__setattr__(command, name, trimmed)


def parse_enum(kind: type[E], value: str, *, field: str) -> E:
    """Return the member of `kind` with this value. Raise InvalidInput if there is none.

    The error lists the allowed values.
    """
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(field, f"must be one of: {', '.join(kind)}") from None


def check_text(text: str, *, field: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """Return `text` unchanged. Raise InvalidInput if it is too long or cannot be stored."""
    if not isinstance(text, str):
        raise InvalidInput(field, "must be text")
    if len(text) > length_max:
        raise InvalidInput(field, f"is {len(text):,} characters; the limit is {length_max}")
    if _UNSTORABLE.search(text):
        raise InvalidInput(field, "contains NUL or a lone surrogate")
    return text


def replace_unstorable(text: str) -> str:
    """Replace NUL and lone surrogates in `text`. `check_text` refuses these characters."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        duplicate = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise ValueError(f"the name {duplicate!r} occurs twice in one object")
    return members


def _parse_int(digits: str) -> int:
    if len(digits) > _DIGIT_COUNT_MAX:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is out of range")
    return number


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_parse_object,
    parse_int=_parse_int,
    parse_float=_parse_float,
    parse_constant=_reject_constant,
).decode


def _has_text_names(value: object) -> bool:
    """Return whether all names are strings. JSON would convert other names, such as 1, to text."""
    pending: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if not all([isinstance(name, str) for name in item]):  # noqa: C419 - Twice as fast.
                return False
            item = item.values()
        pending += [member for member in item if isinstance(member, _CONTAINERS)]
    return True


def _first_error(value: object, field: str) -> tuple[str, str]:
    return _find_error(value, field) or (field, "cannot be written as JSON")


def _find_error(value: object, field: str, depth_max: int = DEPTH_MAX) -> tuple[str, str] | None:
    """Return the path and the problem of the first error in `value`, or None.

    Walks `value` without recursion.
    """
    pending: list[tuple[object, str, int]] = [(value, field, 1)]
    while pending:
        item, path, depth = pending.pop()
        match item:
            case dict() | list() | tuple() if depth > depth_max:
                return path, f"is nested deeper than {depth_max} levels"
            case None | bool() | int():
                continue
            case float():
                if not math.isfinite(item):
                    return path, "is not a finite number"
            case str():
                if _UNSTORABLE.search(item):
                    return path, "contains NUL or a lone surrogate"
            case dict():
                for name, member in item.items():
                    if not isinstance(name, str):
                        return path, f"has the name {name!r}, which is not text"
                    if _UNSTORABLE.search(name):
                        return path, "has a name with NUL or a lone surrogate"
                    pending.append((member, f"{path}.{name}", depth + 1))
            case list() | tuple():
                pending.extend((m, f"{path}[{i}]", depth + 1) for i, m in enumerate(item))
            case _:
                return path, f"is of type {type(item).__name__}, which JSON cannot represent"
    return None
