"""Behind a TLS proxy, browsers use another address than the one the server listens on (S3)."""

import pytest

from headway.api.http.access import Access, Scope, Token
from headway.api.http.origin import Origins, PublicAddress
from headway.core.errors import ConfigurationError
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")

TOKEN = "operate-operate-operate"
ACCESS = Access([Token(TOKEN, Scope.OPERATE)])
PUBLIC = PublicAddress.parse("https://Headway.example.org/")
PUBLIC_HEADERS = {"host": "headway.example.org", "origin": "https://headway.example.org"}


@pytest.mark.proves("S3")
async def test_page_of_the_public_address_is_accepted(url: str) -> None:
    async with served(url, access=ACCESS, public=PUBLIC) as client:
        headers = {**PUBLIC_HEADERS, "sec_fetch_site": "same-origin"}
        answer = await client.post("/api/session", {"token": TOKEN}, **headers)
        assert answer.status == 204
        cookie = answer.headers["set-cookie"]
        assert "; Secure" in cookie
        session = cookie.partition(";")[0]
        submitted = await client.post("/api/runs", {"job": "echo"}, cookie=session, **headers)
        assert submitted.status == 201


@pytest.mark.proves("S3")
async def test_public_origin_is_accepted_when_the_proxy_sends_the_local_host(url: str) -> None:
    async with served(url, public=PUBLIC) as client:
        answer = await client.post("/api/runs", {"job": "echo"}, origin=PUBLIC_HEADERS["origin"])
        assert answer.status == 201


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://headway.example.org"},
        {"origin": "https://headway.example.org:8443"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
    ],
)
async def test_other_origins_are_refused_behind_a_proxy(url: str, changed: dict[str, str]) -> None:
    async with served(url, public=PUBLIC) as client:
        answer = await client.post("/api/runs", {"job": "echo"}, **{**PUBLIC_HEADERS, **changed})
        assert (answer.status, answer["code"]) == (403, "cross_origin")


@pytest.mark.proves("S3")
async def test_refused_tls_origin_names_the_missing_setting(url: str) -> None:
    async with served(url) as client:
        tls_origin = {"origin": client.address.replace("http:", "https:")}
        refused = await client.post("/api/runs", {"job": "echo"}, **tls_origin)
        assert (refused.status, refused["code"]) == (403, "cross_origin")
        assert "HEADWAY_PUBLIC_URL" in refused["detail"]


@pytest.mark.proves("S3")
async def test_public_host_is_refused_without_the_setting(url: str) -> None:
    async with served(url) as client:
        assert (await client.post("/api/runs", {"job": "echo"}, **PUBLIC_HEADERS)).status == 421


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    ("path", "status", "location"),
    [
        ("/", 307, "ui/"),
        ("/ui", 307, "ui/"),
        ("/api/runs/", 404, None),
        ("/metrics/", 404, None),
        ("/docs/", 404, None),
    ],
)
async def test_redirects_keep_tls_and_the_path_prefix(
    url: str, path: str, status: int, location: str | None
) -> None:
    async with served(url, public=PUBLIC) as client:
        answer = await client.get(path, host=PUBLIC_HEADERS["host"])
        assert (answer.status, answer.headers.get("location")) == (status, location)


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://headway.example.org:443", "https://headway.example.org"),
        ("http://Headway.Example.org:80/", "http://headway.example.org"),
        ("https://headway.example.org:8443/headway/", "https://headway.example.org:8443"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_public_origin_is_normalized_as_in_browsers(url: str, origin: str) -> None:
    assert PublicAddress.parse(url).origin == origin


@pytest.mark.parametrize(
    "url",
    [
        "headway.example.org", "ftp://headway.example.org", "https://", "https://ann:x@host",
        "https://host:port", "https://host?x", "https://host#x", "https://ho st", "", "https://[::1",
    ],
)  # fmt: skip
def test_invalid_public_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="such as https://headway"):
        PublicAddress.parse(url)


@pytest.mark.parametrize("host", ["https://host", "host:8070", "host/path", "*", "a b"])
def test_invalid_allowed_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match="allowed_hosts contains"):
        Origins([host])
