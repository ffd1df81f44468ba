"""R4.5: what the URL says about TLS is what happens, on servers that have it and on one without."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from headway.adapters.sql.server import Purpose
from headway.core.errors import DatabaseUnavailable
from tests.services import (
    MariaDBServer,
    Missing,
    PostgresServer,
    start_mariadb,
    start_postgres,
)
from tests.services.certificates import Certificates, make_certificates
from tests.sql.nodes import ask, connected, connector_to

POSTGRES_TLS = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
MARIADB_TLS = (
    "SELECT variable_value <> '' FROM information_schema.session_status"
    " WHERE variable_name = 'Ssl_cipher'"
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Of an authority that no server here knows."""
    return make_certificates(tmp_path_factory.mktemp("other"), client="app")
