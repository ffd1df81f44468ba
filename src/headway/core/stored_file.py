"""Files that runs make: their names, their folders, and their records in the database."""

import hashlib
import re
from typing import Final, NamedTuple

from headway.core.document import check_text
from headway.core.errors import InvalidInput
from headway.core.ids import Instant, Key, RunId

PART_SUFFIX: Final = ".part"
PATH_LENGTH_MAX: Final = 255
NAME_BYTE_COUNT_MAX: Final = 200
"""The maximum length of a file name, in bytes.

File systems allow 255 bytes, but the temporary name of an unfinished file is longer
than its final name.
"""
FOLDER_LENGTH_MAX: Final = 150
# Characters that some file systems refuse or interpret.
_FORBIDDEN: Final = re.compile(r'[\x00-\x1f\x7f\\<>:"|?*]')
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_UNESCAPED_BYTES: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-.")


class FileAddress(NamedTuple):
    """The address of a file. There is one record per address."""

    key: Key
    data_id: str
    """The id of the data directory, independent of its mount point."""
    path: str


class KeyOutput(NamedTuple):
    """The files that runs of a key have made."""

    file_count: int
    example: str


class StoredFile(NamedTuple):
    """The record of a finished file."""

    key: Key
    data_id: str
    path: str
    run_id: RunId
    """The run that wrote the file last. The file belongs to this run."""
    part: str
    """The temporary name that the file had before it was complete.

    If a file with this name still exists, it must be renamed to `path`.
    """
    byte_count: int
    at: Instant

    @property
    def address(self) -> FileAddress:
        return FileAddress(self.key, self.data_id, self.path)


def check_path(path: str, *, field: str = "file") -> str:
    """Return `path`. Raise InvalidInput unless it is a relative path valid on all file systems."""
    check_text(path, field=field, length_max=PATH_LENGTH_MAX)
    if path.startswith("/"):
        raise InvalidInput(field, f"{path!r} is absolute; use a path relative to the run's folder")
    if path.lower().endswith(PART_SUFFIX):
        raise InvalidInput(
            field, f"{path!r} ends in {PART_SUFFIX}, which is reserved for unfinished files"
        )
    for name in path.split("/"):
        problem = _find_problem(name)
        if problem:
            raise InvalidInput(field, f"{path!r} {problem}")
    return path


def _find_problem(name: str) -> str:
    """Return what is wrong with one name in a path, or an empty string if the name is valid."""
    if not name:
        return "has an empty name in it"
    if name in (".", ".."):
        return f"must not contain {name!r}"
    if len(name.encode()) > NAME_BYTE_COUNT_MAX:
        return f"contains a name of more than {NAME_BYTE_COUNT_MAX} bytes"
    forbidden = _FORBIDDEN.search(name)
    if forbidden:
        return f"contains {forbidden[0]!r}, which some file systems do not allow in a name"
    if name[-1] in ". ":
        return "contains a name that ends in a dot or a blank"
    if _DEVICES.fullmatch(name):
        return f"contains {name!r}, which is a device on some systems"
    return ""


def folder_name(key: str) -> str:
    """Return the name of a key's folder.

    Different keys get different names, even on a file system that ignores case. Lowercase
    letters, digits and `_-.` are copied, and every other byte becomes `%` and two hex digits. A
    name that would be too long is cut, and ends in a digest of the key.
    """
    encoded = key.encode()
    edges = (0, len(encoded) - 1)
    parts = [
        chr(byte)
        if byte in _UNESCAPED_BYTES and not (byte == ord(".") and index in edges)
        else f"%{byte:02x}"
        for index, byte in enumerate(encoded)
    ]
    if _DEVICES.fullmatch(key):
        parts[0] = f"%{encoded[0]:02x}"
    name = "".join(parts)
    if len(name) <= FOLDER_LENGTH_MAX:
        return name
    prefix = "".join(parts[:20])
    return f"{prefix}~{hashlib.sha256(encoded).hexdigest()}"
