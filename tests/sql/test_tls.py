"""The TLS settings of the URL take effect, with servers that offer TLS and without (R4.5)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from headway.adapters.sql.connect.server_check import Purpose
from headway.core.errors import DatabaseUnavailable
from tests.servers import MariaDBServer, Missing, PostgresServer, start_mariadb, start_postgres
from tests.servers.certificates import make_certificates
from tests.servers.folder import Folder
from tests.sql.nodes import make_connector, open_connection, read_value

S = TypeVar("S")

USES_TLS = {
    "postgresql": "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    "mysql": "SELECT variable_value <> '' FROM information_schema.session_status"
    " WHERE variable_name = 'Ssl_cipher'",
}


def start_or_skip(start: Callable[[], S], request: pytest.FixtureRequest) -> S:
    try:
        return start()
    except Missing as reason:
        if request.config.getoption("--require-services"):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def postgres_with_tls(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    server = start_or_skip(lambda: start_postgres(tls=True), request)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def mariadb_with_tls(request: pytest.FixtureRequest) -> Iterator[tuple[MariaDBServer, Path]]:
    """Yield a server that offers TLS, and the file of its certificate authority."""
    folder = Folder("tls")
    certificates = make_certificates(folder.path, client="app")
    files = {
        "ssl_ca": certificates.ca_file,
        "ssl_cert": certificates.certificate_file("server"),
        "ssl_key": certificates.key_file("server"),
    }
    for path in files.values():
        folder.hand_over(path)
    settings = {name: str(path) for name, path in files.items()}
    server = start_or_skip(lambda: start_mariadb(settings=settings), request)
    yield server, certificates.ca_file
    server.stop()
    folder.remove()


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("other"), client="app").ca_file


async def is_encrypted(url: str) -> bool:
    async with open_connection(make_connector(url)) as connection:
        return bool(await read_value(connection, USES_TLS[url.partition(":")[0]]))


async def read_reason(url: str) -> str:
    with pytest.raises(DatabaseUnavailable) as refused:
        await make_connector(url).connect(Purpose.WRITE)
    (reason,) = refused.value.reasons.values()
    return reason


@pytest.mark.proves("R4.5")
@pytest.mark.backend("postgres")
async def test_sslmode_require_encrypts_without_a_certificate(
    postgres_with_tls: PostgresServer,
) -> None:
    assert await is_encrypted(f"{postgres_with_tls.url()}?sslmode=require")


@pytest.mark.proves("R4.5")
@pytest.mark.backend("postgres")
async def test_sslmode_disable_does_not_encrypt(postgres_with_tls: PostgresServer) -> None:
    reason = await read_reason(f"{postgres_with_tls.url()}?sslmode=disable")
    assert "no encryption" in reason


@pytest.mark.proves("R4.5")
@pytest.mark.backend("postgres")
async def test_postgres_is_verified_by_the_given_authority(
    postgres_with_tls: PostgresServer, other_authority: Path
) -> None:
    url = postgres_with_tls.url()
    assert await is_encrypted(f"{url}?ssl_ca={postgres_with_tls.ca_file}")
    assert "CERTIFICATE_VERIFY_FAILED" in await read_reason(f"{url}?ssl_ca={other_authority}")


@pytest.mark.proves("R4.5")
@pytest.mark.backend("postgres")
async def test_client_certificate_authenticates_the_client(
    postgres_with_tls: PostgresServer,
) -> None:
    server = postgres_with_tls
    url = f"{server.url(user='app')}?ssl_ca={server.ca_file}"
    files = f"ssl_cert={server.client_cert_file}&ssl_key={server.client_key_file}"
    assert await is_encrypted(f"{url}&{files}")
    assert "certificate" in await read_reason(url)


@pytest.mark.proves("R4.5")
@pytest.mark.backend("postgres")
async def test_certificate_files_never_fall_back_to_clear_text_on_postgres(
    postgres_server: PostgresServer, other_authority: Path
) -> None:
    reason = await read_reason(f"{postgres_server.url()}?ssl_ca={other_authority}")
    assert "rejected SSL upgrade" in reason
    assert not await is_encrypted(f"{postgres_server.url()}?sslmode=prefer")


@pytest.mark.proves("R4.5")
@pytest.mark.backend("mariadb")
async def test_mariadb_is_verified_by_the_given_authority(
    mariadb_with_tls: tuple[MariaDBServer, Path], other_authority: Path
) -> None:
    server, authority = mariadb_with_tls
    assert await is_encrypted(f"{server.url()}?ssl_ca={authority}")
    assert not await is_encrypted(server.url())
    assert "CERTIFICATE_VERIFY_FAILED" in await read_reason(
        f"{server.url()}?ssl_ca={other_authority}"
    )


@pytest.mark.proves("R4.5")
@pytest.mark.backend("mariadb")
async def test_certificate_files_never_fall_back_to_clear_text_on_mariadb(
    mariadb_server: MariaDBServer, other_authority: Path
) -> None:
    reason = await read_reason(f"{mariadb_server.url()}?ssl_ca={other_authority}")
    assert "offers no TLS" in reason
