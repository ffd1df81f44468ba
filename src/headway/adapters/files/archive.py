"""Packs output files into one zip file."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

CHUNK_BYTE_COUNT: Final = 1 << 20
ZIP_EPOCH_S: Final = 315_532_800
"""The first second of 1980, which is the earliest time that a zip can store."""


def write_archive(
    descriptor: int, contents: Iterator[tuple[str, int]], should_stop: Callable[[], bool]
) -> str | None:
    """Write open files as a zip to `descriptor`. Return the completion time as text.

    `contents` yields a path and an open descriptor for each file. All these descriptors and
    `descriptor` are closed. Return None if `should_stop` returned True.
    """
    with os.fdopen(descriptor, "wb") as target:
        with ZipFile(target, "w", ZIP_DEFLATED) as archive:
            for path, source in contents:
                if not _add_file(archive, path, source, should_stop):
                    return None
        target.flush()
        os.fsync(target.fileno())
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _add_file(archive: ZipFile, path: str, source: int, should_stop: Callable[[], bool]) -> bool:
    with os.fdopen(source, "rb") as file:
        changed_s = max(os.fstat(source).st_mtime, ZIP_EPOCH_S)
        entry = ZipInfo(path, time.gmtime(changed_s)[:6])
        entry.compress_type = ZIP_DEFLATED
        entry.external_attr = 0o600 << 16
        with archive.open(entry, "w", force_zip64=True) as packed:
            while chunk := file.read(CHUNK_BYTE_COUNT):
                if should_stop():
                    return False
                packed.write(chunk)
    return not should_stop()
