"""Redis over TLS: its certificate is verified, and ours is shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.core.errors import RuntimeUnavailable
from headway.ports.runtime_store import Hint
from tests.runtime.scenes import a_claim, opened, until
from tests.servers import Missing, RedisServer, start_redis
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.fixture import running
from tests.servers.folder import Folder
from tests.servers.process import free_port

pytestmark = pytest.mark.backend("redis")


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    folder = Folder("tl")  # One that the server's user can read.
    try:
        made = make_certificates(folder.path, client="app")
        for path in folder.path.iterdir():
            path.chmod(0o644)
        yield made
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
    yield from running(lambda: _started(settings), request)


def _started(settings: dict[str, str]) -> RedisServer:
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
    run_id, heard = a_claim().run_id, list[Hint]()
    async with opened(url) as store:
        await store.watch(run_id, heard.append)
        await store.request_cancel(run_id)
        await until(lambda: heard == [Hint.CANCEL], what="the hint has come")


@pytest.mark.usefixtures("tls_server")
async def test_a_server_that_nobody_vouches_for_is_refused(tls_port: int, tmp_path: Path) -> None:
    others = make_certificates(tmp_path, client="app")
    for url in (
        f"rediss://127.0.0.1:{tls_port}",  # The system's authorities do not know it.
        f"rediss://127.0.0.1:{tls_port}?ssl_ca={others.ca_file}",
    ):
        async with opened(url) as store:
            with pytest.raises(RuntimeUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await store.is_cancelled(a_claim().run_id)
