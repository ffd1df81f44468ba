"""Databases to torture: a file, or a private server, created for one torture and then removed."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from headway.bootstrap import upgrade_database
from tests.servers import start_mariadb, start_postgres


@contextmanager
def sqlite_file() -> Iterator[list[str]]:
    with tempfile.TemporaryDirectory(prefix="headway-torture-") as folder:
        yield [f"sqlite:///{Path(folder, 'torture.db')}"]


@contextmanager
def postgres() -> Iterator[list[str]]:
    server = start_postgres()
    try:
        server.create_database("torture")
        urls = [server.url("torture")]
        asyncio.run(upgrade_database(urls))
        yield urls
    finally:
        server.stop()


@contextmanager
def mariadb() -> Iterator[list[str]]:
    server = start_mariadb()
    try:
        server.create_database("torture")
        urls = [server.url("torture")]
        asyncio.run(upgrade_database(urls))
        yield urls
    finally:
        server.stop()


PLACES: Final[dict[str, Callable[[], AbstractContextManager[list[str]]]]] = {
    "sqlite": sqlite_file,
    "postgres": postgres,
    "mariadb": mariadb,
}
