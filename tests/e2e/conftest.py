"""A real browser and a real server. Each test gets a page and leaves the board empty."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Playwright, ViewportSize, async_playwright

from headway.api.web_page import BUILT_FOLDER
from tests.e2e.site import Site
from tests.e2e.viewer import WIDE, Scheme, Viewer
from tests.servers.process import Missing
from tests.servers.programs import chromium_program


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-screenshots", action="store_true", help="write the images of docs/images again"
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def playwright() -> AsyncIterator[Playwright]:
    async with async_playwright() as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(playwright: Playwright, request: pytest.FixtureRequest) -> AsyncIterator[Browser]:
    try:
        program = chromium_program()
    except Missing as reason:
        if request.config.getoption("--require-services"):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))
    assert (BUILT_FOLDER / "index.html").is_file(), "the page is not built: make page"
    # Root may not use a sandbox; the browser only opens our own pages.
    started = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
    yield started
    await started.close()


@pytest.fixture(scope="session")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    site.start()
    yield site
    site.stop()


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    yield shared_site
    shared_site.clear()


@pytest_asyncio.fixture(loop_scope="session")
async def viewer(
    browser: Browser, site: Site, request: pytest.FixtureRequest
) -> AsyncIterator[Viewer]:
    """A viewer of the site, which records every error of the page."""
    looks: tuple[Scheme, ViewportSize] = getattr(request, "param", ("light", WIDE))
    scheme, size = looks
    viewer = Viewer(browser, site.address, scheme=scheme, size=size)
    yield viewer
    await viewer.leave()


@pytest.fixture
def lone_site(tmp_path: Path) -> Iterator[Site]:
    """A site for tests that kill it."""
    site = Site(tmp_path)
    site.start()
    yield site
    site.stop()
