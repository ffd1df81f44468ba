"""The folder of mirrored runs, with one JSON file per run."""

import os
from pathlib import Path
from typing import Final

from headway.adapters.files.folder import make_private_folder
from headway.core.ids import Instant, RunId
from headway.core.stored_file import folder_name

SEQ_FILE: Final = ".seq"


class MirrorFolder:
    def __init__(self, root: Path) -> None:
        self._folder = root / "runs"

    def write(self, run_id: RunId, text: str) -> None:
        self._replace(f"{folder_name(run_id)}.json", text)

    def read_position(self) -> tuple[int, Instant | None]:
        try:
            seq, _, at = (self._folder / SEQ_FILE).read_text(encoding="ascii").partition(" ")
            return int(seq), Instant(int(at)) if at else None
        except (FileNotFoundError, ValueError):
            return 0, None

    def write_position(self, seq: int, at: Instant) -> None:
        self._replace(SEQ_FILE, f"{seq} {at}")

    def _replace(self, name: str, text: str) -> None:
        make_private_folder(self._folder)
        # The pid makes the name unique: another process may mirror into the same folder.
        temporary = self._folder / f".{name}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
            temporary.replace(self._folder / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
