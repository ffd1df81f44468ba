"""A file that is being written."""

import os
from contextlib import suppress


class OpenPart:
    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self._file = os.fdopen(descriptor, "wb")

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._file.write(data)

    def finish(self) -> int:
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    def close(self) -> None:
        with suppress(OSError):  # The content is discarded, so a failed flush does not matter.
            self._file.close()
