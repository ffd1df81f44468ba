"""A person at a browser: opens tabs, and at the end no errors may have occurred in any of them."""

import re
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    ViewportSize,
)

TIMEOUT_MS: Final = 20_000
# The browser itself logs refused requests and failed connections.
OF_THE_NETWORK: Final = re.compile(r"^Failed to load resource: .*?(?:status of (\d+)|(net::\w+))")
REFUSALS: Final[dict[int, str]] = {
    401: r"/api/.*",
    404: r"/api/(runs|tasks|flows)/[^/]+(/[a-z-]+)?",
    409: r"/api/(runs(/[^/]+/(resume|messages))?|flows/[^/]+/tasks|tasks/[^/]+/approve)",
    412: r"/api/(keys|flows)/[^/]+",
    422: r"/api/(runs(/[^/]+/resume)?|keys/[^/]+|flow-check|flows/[^/]+)",
}
"""Responses that a server may refuse during a test: status and path."""

Scheme = Literal["light", "dark"]


WIDE: Final = ViewportSize(width=1440, height=900)
NARROW: Final = ViewportSize(width=390, height=844)


# Both color schemes and both widths, for the most common actions.
everywhere: Final = pytest.mark.parametrize(
    "viewer",
    [
        pytest.param(("light", WIDE), id="light-1440"),
        pytest.param(("dark", NARROW), id="dark-390"),
    ],
    indirect=True,
)


class Viewer:
    def __init__(
        self,
        browser: Browser,
        address: str,
        *,
        scheme: Scheme = "light",
        size: ViewportSize = WIDE,
    ) -> None:
        self._browser = browser
        self._address = address
        self.scheme: Scheme = scheme
        self.size = size
        self._context: BrowserContext | None = None
        self.may_be_cut = False
        """True if the server may be unreachable for a while; the browser logs that too."""
        self.refusals = dict(REFUSALS)
        self.faults: list[str] = []

    async def open(
        self,
        screen: str = "board",
        *,
        scheme: Scheme | None = None,
        size: ViewportSize | None = None,
    ) -> Page:
        """Open a tab with one of the screens. Tabs of one viewer share a browser."""
        if self._context is None:
            # Requests of service workers are not routed: nothing is faked here.
            self._context = await self._browser.new_context(
                color_scheme=scheme or self.scheme,
                viewport=size or self.size,
                timezone_id="UTC",
                reduced_motion="reduce",
            )
            self._context.set_default_timeout(TIMEOUT_MS)
            self._context.on("console", self._on_console)
            self._context.on("weberror", lambda error: self.faults.append(str(error.error)))
            self._context.on("request", self._on_request)
        page = await self._context.new_page()
        await self.go(page, screen)
        return page

    async def go(self, page: Page, screen: str) -> None:
        await page.goto(f"{self._address}/ui/#/{screen}")

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not self._is_allowed(message):
            self.faults.append(f"{message.type}: {message.text} {message.location.get('url')}")

    def _is_allowed(self, message: ConsoleMessage) -> bool:
        """Return whether the message only reports an allowed refusal or outage."""
        noted = OF_THE_NETWORK.match(message.text)
        if noted is None:
            return False
        status, _ = noted.groups()
        path = urlsplit(message.location["url"]).path
        if status is None:
            return self.may_be_cut and path.startswith("/api/")
        return re.fullmatch(self.refusals.get(int(status), "-"), path) is not None

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(f"{self._address}/"):
            self.faults.append(f"a request to elsewhere: {request.url}")

    async def leave(self) -> None:
        """Close everything, and fail if there were errors."""
        if self._context is not None:
            await self._context.close()
        assert self.faults == [], self.faults


def row(page: Page, key: str) -> Locator:
    return page.get_by_role("article", name=key, exact=True)


async def overflow_px(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    wider: Any = await page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return int(wider)
