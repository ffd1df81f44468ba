"""Redis over TLS: the server certificate is verified, and the client certificate is sent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.core.errors import RuntimeUnavailable
from headway.runtime import Hint
from tests.runtime.scenes import a_claim, open_runtime, until
from tests.servers import Missing, RedisServer, start_redis
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.fixture import running
from tests.servers.folder import Folder
from tests.servers.process import free_port

pytestmark = pytest.mark.backend("redis")


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    folder = Folder("tl")  # The user of the Redis server can read it.
    try:
        certificates = make_certificates(folder.path, client="app")
        for path in folder.path.iterdir():
            path.chmod(0o644)
        yield certificates
    finally:
        folder.remove()


@pytest.fixture(scope="module")
def tls_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def tls_server(
    request: pytest.FixtureRequest, certificates: Certificates, tls_port: int
) -> Iterator[RedisServer]:
    settings = {
        "tls-port": str(tls_port),
        "tls-ca-cert-file": str(certificates.ca_file),
        "tls-cert-file": str(certificates.certificate_file("server")),
        "tls-key-file": str(certificates.key_file("server")),
        "tls-auth-clients": "yes",
    }
    yield from running(lambda: _start(settings), request)


def _start(settings: dict[str, str]) -> RedisServer:
    try:
        return start_redis(settings=settings)
    except RuntimeError as error:
        if "TLS" in str(error):
            raise Missing(
                "the Redis here has no TLS; install one: apt-get install redis-server"
            ) from error
        raise


@pytest.mark.usefixtures("tls_server")
async def test_calls_and_hints_go_over_tls(certificates: Certificates, tls_port: int) -> None:
    url = (
        f"rediss://127.0.0.1:{tls_port}?ssl_ca={certificates.ca_file}"
        f"&ssl_cert={certificates.certificate_file('client')}"
        f"&ssl_key={certificates.key_file('client')}"
    )
    run_id, hints = a_claim().run_id, list[Hint]()
    async with open_runtime(url) as store:
        await store.watch(run_id, hints.append)
        await store.request_cancel(run_id)
        await until(lambda: hints == [Hint.CANCEL], what="the hint is received")


@pytest.mark.usefixtures("tls_server")
async def test_server_with_an_untrusted_certificate_is_refused(
    tls_port: int, tmp_path: Path
) -> None:
    others = make_certificates(tmp_path, client="app")
    for url in (
        f"rediss://127.0.0.1:{tls_port}",  # Not signed by an authority of the system.
        f"rediss://127.0.0.1:{tls_port}?ssl_ca={others.ca_file}",
    ):
        async with open_runtime(url) as store:
            with pytest.raises(RuntimeUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await store.is_cancelled(a_claim().run_id)
