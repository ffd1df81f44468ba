"""Pages of other origins cannot do anything, nor can a page that rebinds our host name.

In a real browser: a page cannot forge the headers that the browser adds (`Origin`,
`Sec-Fetch-Site`), and headers that it omits, such as an Origin on a plain GET, are as real. The
other origin is another port.
"""

import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest
from playwright.async_api import Browser, Page, Playwright

from tests.e2e.site import Site
from tests.servers.programs import chromium_program

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]

OTHER_NAME: Final = "rebound.test"
COUNTED: Final = re.compile(r'headway_http_requests_total\{status="(\d+)"\} (\S+)')
BODY: Final = '{"job":"say","key":"theirs","params":{"said":"owned"}}'
FETCH: Final = """async ([url, method, mode, type]) => {
  const sent = {method, mode, credentials: "include"};
  if (method !== "GET" && method !== "HEAD") {
    sent.body = BODY;
    sent.headers = {"content-type": type};
  }
  try {
    const answer = await fetch(url, sent);
    return answer.type === "opaque" ? "opaque" : `${answer.status} ${await answer.text()}`;
  } catch (error) {
    return "refused";
  }
}""".replace("BODY", repr(BODY))
LISTEN: Final = """url => new Promise(done => {
  const source = new EventSource(url);
  source.onopen = () => done("open");
  source.onmessage = () => done("heard");
  source.onerror = () => { done("refused"); source.close(); };
})"""
LOAD: Final = """([kind, url]) => new Promise(done => {
  const element = document.createElement(kind);
  element.onload = () => done("loaded");
  element.onerror = () => done("refused");
  element.src = url;
  document.body.append(element);
})"""


class Stranger(BaseHTTPRequestHandler):
    """Serves an empty page under every path."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(EMPTY_PAGE.encode())

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Log nothing."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """Return the address of a foreign server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    serving.join()
    server.server_close()


EMPTY_PAGE: Final = "<!doctype html><title>theirs</title><body></body>"


@asynccontextmanager
async def opened(browser: Browser, address: str) -> AsyncIterator[Page]:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(address)
    yield page
    await context.close()


class Answered:
    """Counts the responses of the site by status since its creation, by the site's own metrics."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._before = self._counts()

    def _counts(self) -> dict[int, float]:
        lines = self._site.text("/metrics").splitlines()
        found = (COUNTED.fullmatch(line) for line in lines)
        return {int(one[1]): float(one[2]) for one in found if one is not None}

    def __call__(self) -> dict[int, int]:
        """Return the counts without the request that reads them."""
        after = self._counts()
        before = Counter(self._before) + Counter({200: 1})
        return {
            code: int(after[code] - before[code]) for code in after if after[code] > before[code]
        }


@pytest.fixture
def untouched(site: Site) -> Iterator[None]:
    """Check that the test changes nothing."""
    before = _standing(site)
    yield
    assert _standing(site) == before


def _standing(site: Site) -> Any:
    state = site.call("GET", "/api/state")
    return state["lanes"], state["keys"], site.call("GET", "/api/runs?key=theirs")


METHODS: Final = [
    ("GET", "/api/state"),
    ("HEAD", "/api/state"),
    ("POST", "/api/runs"),
    ("PUT", "/api/keys/theirs"),
    ("PATCH", "/api/lanes/main"),
    ("DELETE", "/api/keys/theirs"),
    ("OPTIONS", "/api/runs"),
]


@pytest.mark.proves("S3")
@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("method", "path"), METHODS)
async def test_another_origin_is_refused_for_every_method(
    browser: Browser, site: Site, elsewhere: str, method: str, path: str
) -> None:
    """If the browser asks for permission first, that request is refused."""
    async with opened(browser, elsewhere) as page:
        answered = Answered(site)
        wanted = [f"{site.address}{path}", method, "cors", "application/json"]
        assert await page.evaluate(FETCH, wanted) == "refused"
        assert answered() == {403: 1}


@pytest.mark.proves("S3")
@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
async def test_requests_in_no_cors_mode_are_refused_too(
    browser: Browser, site: Site, elsewhere: str, method: str
) -> None:
    """A browser sends such requests without permission, so the server must refuse them."""
    async with opened(browser, elsewhere) as page:
        answered = Answered(site)
        wanted = [f"{site.address}/api/runs", method, "no-cors", "text/plain"]
        assert await page.evaluate(FETCH, wanted) in ("opaque", "refused")
        assert answered() == {403: 1}


@pytest.mark.proves("S3")
@pytest.mark.parametrize("path", ["/api/events", "/api/events?after=0"])
async def test_another_origin_receives_no_events(
    browser: Browser, site: Site, elsewhere: str, path: str
) -> None:
    site.submit("ann", job="say", params={"said": "hello"})
    async with opened(browser, elsewhere) as page:
        answered = Answered(site)
        assert await page.evaluate(LISTEN, f"{site.address}{path}") == "refused"
        assert answered() == {403: 1}


@pytest.mark.proves("S3")
@pytest.mark.parametrize(("kind", "path"), [("script", "/events.js"), ("img", "/api/state")])
async def test_no_resource_can_be_loaded_into_a_page_of_another_origin(
    browser: Browser, site: Site, elsewhere: str, kind: str, path: str
) -> None:
    async with opened(browser, elsewhere) as page:
        answered = Answered(site)
        assert await page.evaluate(LOAD, [kind, f"{site.address}{path}"]) == "refused"
        assert answered() == {403: 1}


@pytest.mark.proves("S3")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
async def test_a_form_submitted_from_another_origin_changes_nothing(
    browser: Browser, site: Site, elsewhere: str, kind: str
) -> None:
    run_id = site.begun("ann", params={"url": "https://example.org/ann"})
    async with opened(browser, elsewhere) as page:
        action = f"{site.address}/api/runs/{run_id}/cancel"
        async with page.expect_navigation():
            await page.evaluate(
                "([action, kind]) => { const form = document.createElement('form');"
                " form.action = action; form.method = 'post'; form.enctype = kind;"
                " document.body.append(form); form.submit(); }",
                [action, kind],
            )
        assert "another origin" in await page.inner_text("body")
    assert site.call("GET", f"/api/runs/{run_id}")["status"] == "running"


FOLLOW: Final = """url => {
  const link = document.createElement("a");
  link.href = url;
  document.body.append(link);
  link.click();
}"""


@pytest.mark.proves("S3")
@pytest.mark.parametrize("path", ["/", "/ui/"])
async def test_a_link_from_another_site_can_open_the_page(
    browser: Browser, site: Site, elsewhere: str, path: str
) -> None:
    """The link is on another site, not only on another port, so the hosts differ."""
    async with opened(browser, elsewhere.replace("127.0.0.1", "localhost")) as page:
        async with page.expect_navigation(url=f"{site.address}/ui/**"):
            await page.evaluate(FOLLOW, f"{site.address}{path}")
        await page.get_by_role("navigation").first.wait_for()
        wanted = [f"{site.address}/api/state", "GET", "cors", "application/json"]
        assert (await page.evaluate(FETCH, wanted)).startswith("200 ")


@pytest.mark.proves("S3")
@pytest.mark.parametrize("path", ["/ui/", "/api/state"])
async def test_the_page_cannot_be_framed(
    browser: Browser, site: Site, elsewhere: str, path: str
) -> None:
    async with opened(browser, elsewhere) as page:
        answered = Answered(site)
        await page.evaluate(LOAD, ["iframe", f"{site.address}{path}"])
        (frame,) = page.main_frame.child_frames
        assert not frame.url.startswith(site.address) or not await frame.query_selector("nav")
        assert answered() == {403: 1}


@pytest.mark.proves("S3")
@pytest.mark.usefixtures("untouched")
async def test_a_link_from_another_site_cannot_open_the_api(
    browser: Browser, site: Site, elsewhere: str
) -> None:
    async with opened(browser, elsewhere) as page:
        async with page.expect_navigation():
            await page.evaluate(FOLLOW, f"{site.address}/api/state")
        assert "another origin" in await page.inner_text("body")


@pytest.mark.proves("S3")
async def test_page_of_the_server_itself_is_not_refused(browser: Browser, site: Site) -> None:
    """The requests are the same as from another origin, so only the origin differs."""
    async with opened(browser, f"{site.address}/ui/") as page:
        for method, code in (("GET", "200"), ("POST", "201")):
            wanted = [f"{site.address}/api/runs", method, "cors", "application/json"]
            assert (await page.evaluate(FETCH, wanted)).split()[0] == code
        assert await page.evaluate(LISTEN, f"{site.address}/api/events") == "open"


@pytest.mark.proves("S3")
@pytest.mark.usefixtures("untouched")
async def test_a_page_that_reaches_the_server_by_dns_rebinding_is_refused(
    playwright: Playwright, browser: Browser, site: Site
) -> None:
    """DNS rebinding: the browser sees a single origin, and the server sees a foreign host name."""
    rebound = await playwright.chromium.launch(
        executable_path=chromium_program(),
        args=[
            "--no-sandbox",
            f"--host-resolver-rules=MAP {OTHER_NAME} 127.0.0.1",
            # Not every browser has it, so the protection must not depend on it.
            "--disable-features=LocalNetworkAccessChecks",
        ],
    )
    theirs = f"http://{OTHER_NAME}:{site.port}"
    try:
        page = await rebound.new_page()
        # The page that their server returned before the name was rebound.
        await page.route(
            f"{theirs}/theirs",
            lambda route: route.fulfill(body=EMPTY_PAGE, content_type="text/html"),
        )
        await page.goto(f"{theirs}/theirs")
        answered = Answered(site)
        for method, path in METHODS:
            wanted = [f"{theirs}{path}", method, "cors", "application/json"]
            assert (await page.evaluate(FETCH, wanted)).startswith("421"), method
        assert await page.evaluate(LISTEN, f"{theirs}/api/events") == "refused"
        # Some appear twice: a browser repeats the request for that status.
        assert set(answered()) == {421}
    finally:
        await rebound.close()
