"""Disks that are full when a test says so."""

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
        """From here on no file can grow."""
        ...

    def free(self) -> None: ...


class MountedDisk:
    """A file system of its own: what does not fit is refused with "no space left"."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        with (self.folder / "ballast").open("wb", buffering=0) as ballast:
            try:
                while True:  # The disk has an end.
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
        pytest.skip(f"no file system can be mounted here (as root it can): {mounting.stderr}")
    try:
        yield MountedDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


class LimitedDisk:
    """Any folder, under a limit on the size of this process's files: an error of the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        largest = max(path.stat().st_size for path in self.folder.iterdir())
        sys.dont_write_bytecode = True  # A module that does not fit would be left half written.
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
    """What to run a command under so that the modes of files bind it, also as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
