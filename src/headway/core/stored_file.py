"""Files that runs make: how they may be called, where they are kept, and the ledger's entries."""

import hashlib
import re
from typing import Final, NamedTuple

from headway.core.document import check_text
from headway.core.errors import InvalidInput
from headway.core.ids import Instant, Key, RunId

PART_SUFFIX: Final = ".part"
PATH_LENGTH_MAX: Final = 255
NAME_BYTE_COUNT_MAX: Final = 200
"""A file system takes 255; what is not whole yet has a longer name."""
FOLDER_LENGTH_MAX: Final = 150
# What some file system cannot have in a name, or takes for something else.
_FORBIDDEN: Final = re.compile(r'[\x00-\x1f\x7f\\<>:"|?*]')
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_UNESCAPED_BYTES: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-.")


class FileAddress(NamedTuple):
    """Where a file is: the ledger has one entry for it."""

    key: Key
    data_id: str
    """Of the data directory, wherever that is mounted."""
    path: str


class KeyOutput(NamedTuple):
    """What runs of a key have left in its folder."""

    file_count: int
    example: str


class StoredFile(NamedTuple):
    """A finished file, as the ledger knows it."""

    key: Key
    data_id: str
    path: str
    run_id: RunId
    """The run that made it last: the file is that run's."""
    part: str
    """What it was called before it was whole; as long as that exists, the renaming is due."""
    byte_count: int
    at: Instant

    @property
    def address(self) -> FileAddress:
        return FileAddress(self.key, self.data_id, self.path)


def check_path(path: str, *, field: str = "file") -> str:
    """`path`, if it names a file below the run's folder on every file system; else InvalidInput."""
    check_text(path, field=field, length_max=PATH_LENGTH_MAX)
    if path.startswith("/"):
        raise InvalidInput(field, f"{path!r} is absolute; name it from the run's folder on")
    if path.lower().endswith(PART_SUFFIX):
        raise InvalidInput(field, f"{path!r} ends in {PART_SUFFIX}, as only unfinished files do")
    for name in path.split("/"):
        problem = _find_problem(name)
        if problem:
            raise InvalidInput(field, f"{path!r} {problem}")
    return path


def _find_problem(name: str) -> str:
    """What is wrong with one name of a path; nothing, if it is well."""
    if not name:
        return "has an empty name in it"
    if name in (".", ".."):
        return f"must not contain {name!r}"
    if len(name.encode()) > NAME_BYTE_COUNT_MAX:
        return f"has a name of more than {NAME_BYTE_COUNT_MAX} bytes in it"
    found = _FORBIDDEN.search(name)
    if found:
        return f"contains {found[0]!r}, which not every file system can have in a name"
    if name[-1] in ". ":
        return "has a name in it that ends in a dot or a blank"
    if _DEVICES.fullmatch(name):
        return f"contains {name!r}, which is a device on some systems"
    return ""


def folder_name(key: str) -> str:
    """The folder of a key: another for every key, also where `A` and `a` are the same.

    Small letters, digits and `_-.` stand for themselves, and every other byte is `%` and two hex
    digits. What would become too long ends in its digest instead.
    """
    encoded = key.encode()
    edges = (0, len(encoded) - 1)
    parts = [
        chr(byte)
        if byte in _UNESCAPED_BYTES and not (byte == ord(".") and place in edges)
        else f"%{byte:02x}"
        for place, byte in enumerate(encoded)
    ]
    if _DEVICES.fullmatch(key):
        parts[0] = f"%{encoded[0]:02x}"
    name = "".join(parts)
    if len(name) <= FOLDER_LENGTH_MAX:
        return name
    beginning = "".join(parts[:20])
    return f"{beginning}~{hashlib.sha256(encoded).hexdigest()}"
