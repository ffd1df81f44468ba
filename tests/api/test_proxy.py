"""Behind a proxy with TLS: browsers come to another address than the one it listens on (S3)."""

import pytest

from headway.api.http.access import Access, Scope, Token
from headway.api.http.origin import Origins, PublicAddress
from headway.core.errors import ConfigurationError
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")

TOKEN = "operate-operate-operate"
ACCESS = Access([Token(TOKEN, Scope.OPERATE)])
PUBLIC = PublicAddress.parse("https://Headway.example.org/")
THEIRS = {"host": "headway.example.org", "origin": "https://headway.example.org"}


@pytest.mark.proves("S3")
async def test_a_page_of_the_public_address_may_call(url: str) -> None:
    async with served(url, access=ACCESS, public=PUBLIC) as client:
        said = {**THEIRS, "sec_fetch_site": "same-origin"}
        answer = await client.post("/api/session", {"token": TOKEN}, **said)
        assert answer.status == 204
        cookie = answer.headers["set-cookie"]
        assert "; Secure" in cookie
        kept = cookie.partition(";")[0]
        submitted = await client.post("/api/runs", {"job": "echo"}, cookie=kept, **said)
        assert submitted.status == 201


@pytest.mark.proves("S3")
async def test_also_when_the_proxy_calls_us_by_our_own_name(url: str) -> None:
    async with served(url, public=PUBLIC) as client:
        answer = await client.post("/api/runs", {"job": "echo"}, origin=THEIRS["origin"])
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
async def test_no_other_origin_may(url: str, changed: dict[str, str]) -> None:
    async with served(url, public=PUBLIC) as client:
        answer = await client.post("/api/runs", {"job": "echo"}, **{**THEIRS, **changed})
        assert (answer.status, answer["code"]) == (403, "cross_origin")


@pytest.mark.proves("S3")
async def test_without_the_setting_our_own_page_behind_tls_is_told_which_one(url: str) -> None:
    async with served(url) as client:
        by_tls = {"origin": client.address.replace("http:", "https:")}
        refused = await client.post("/api/runs", {"job": "echo"}, **by_tls)
        assert (refused.status, refused["code"]) == (403, "cross_origin")
        assert "HEADWAY_PUBLIC_URL" in refused["detail"]


@pytest.mark.proves("S3")
async def test_without_the_setting_the_public_name_is_unknown(url: str) -> None:
    async with served(url) as client:
        assert (await client.post("/api/runs", {"job": "echo"}, **THEIRS)).status == 421


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
async def test_nobody_is_led_to_an_address_without_tls_or_prefix(
    url: str, path: str, status: int, location: str | None
) -> None:
    async with served(url, public=PUBLIC) as client:
        answer = await client.get(path, host=THEIRS["host"])
        assert (answer.status, answer.headers.get("location")) == (status, location)


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    ("said", "origin"),
    [
        ("https://headway.example.org:443", "https://headway.example.org"),
        ("http://Headway.Example.org:80/", "http://headway.example.org"),
        ("https://headway.example.org:8443/headway/", "https://headway.example.org:8443"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_the_origin_is_written_as_browsers_write_it(said: str, origin: str) -> None:
    assert PublicAddress.parse(said).origin == origin


@pytest.mark.parametrize(
    "said",
    [
        "headway.example.org", "ftp://headway.example.org", "https://", "https://ann:x@host",
        "https://host:port", "https://host?x", "https://host#x", "https://ho st", "", "https://[::1",
    ],
)  # fmt: skip
def test_a_public_url_that_cannot_be_right_is_refused(said: str) -> None:
    with pytest.raises(ConfigurationError, match="such as https://headway"):
        PublicAddress.parse(said)


@pytest.mark.parametrize("said", ["https://host", "host:8070", "host/path", "*", "a b"])
def test_a_name_that_no_request_could_have_is_refused(said: str) -> None:
    with pytest.raises(ConfigurationError, match="allowed_hosts has"):
        Origins([said])
