"""The environments of other systems: one each, under .cache/peers, with pinned versions.

A file `peers/<system>.txt` is made anew by
`echo <system> | uv pip compile --universal --generate-hashes --no-header --no-annotate -`.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.bench.places import ROOT

ENVIRONMENTS: Final = ROOT / ".cache" / "peers"
REQUIREMENTS: Final = ROOT / "tests" / "bench" / "peers"
INSTALL_TIMEOUT_S: Final = 300.0


class CannotInstall(Exception):
    pass


def python_with(system: str) -> str:
    """An interpreter that has `system`; it is installed unless it is there already."""
    folder = ENVIRONMENTS / system
    pinned = REQUIREMENTS / f"{system}.txt"
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists() or complete.read_text() != pinned.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        _install(folder, python, pinned)
        complete.write_text(pinned.read_text())
    return str(python)


def version_of(system: str) -> str:
    for line in (REQUIREMENTS / f"{system}.txt").read_text().splitlines():
        name, _, rest = line.partition("==")
        if name == system:
            return rest.split()[0]
    raise AssertionError(f"{system}.txt does not pin {system}")


def _install(folder: Path, python: Path, pinned: Path) -> None:
    _run(sys.executable, "-m", "venv", str(folder))
    pip = (str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet")
    # The file names all there is: nothing is left to find out.
    _run(*pip, "install", "--no-deps", "--require-hashes", "--requirement", str(pinned))


def _run(*words: str) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or [f"{words[0]} ended with {error.returncode}"]
        raise CannotInstall(said[-1]) from error
    except subprocess.TimeoutExpired as error:
        raise CannotInstall(f"not installed in {INSTALL_TIMEOUT_S:g} s") from error
