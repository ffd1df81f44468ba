"""Disks that a test can fill and free."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest


class SmallDisk(Protocol):
    folder: Path

    def fill(self) -> None:
        """Make sure that no file can grow."""
        ...

    def free(self) -> None: ...


class MountedDisk:
    """A separate small file system, on which a write fails with ENOSPC once it is full."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        with (self.folder / "ballast").open("wb", buffering=0) as ballast:
            try:
                while True:  # Until the disk is full.
                    ballast.write(bytes(1024))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def free(self) -> None:
        (self.folder / "ballast").unlink()


@contextmanager
def mounted_disk(folder: Path, *, byte_count: int) -> Iterator[MountedDisk]:
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={byte_count}", "headway-test"]
    mounting = subprocess.run(
        ["mount", *options, folder], capture_output=True, text=True, check=False
    )
    if mounting.returncode != 0:
        pytest.skip(f"mounting a file system needs root: {mounting.stderr}")
    try:
        yield MountedDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


class LimitedDisk:
    """A folder under RLIMIT_FSIZE of this process: a write beyond it is a disk I/O error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        largest = max(path.stat().st_size for path in self.folder.iterdir())
        sys.dont_write_bytecode = True  # A module that does not fit would be written incompletely.
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, self._limits[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)
        sys.dont_write_bytecode = False


@contextmanager
def limited_disk(folder: Path) -> Iterator[LimitedDisk]:
    folder.mkdir()
    disk = LimitedDisk(folder)
    try:
        yield disk
    finally:
        disk.free()


def bound_by_permissions() -> list[str]:
    """Return a command prefix under which file modes also restrict root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
