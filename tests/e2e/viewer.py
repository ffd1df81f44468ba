"""A person at a browser: opens tabs, and afterwards nothing may have gone wrong in any of them."""

from typing import Any, Final, Literal

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
# The browser itself notes what the server refused, or that it was not there.
OF_THE_NETWORK: Final = "Failed to load resource"

Scheme = Literal["light", "dark"]


WIDE: Final = ViewportSize(width=1440, height=900)
NARROW: Final = ViewportSize(width=390, height=844)


class Viewer:
    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        self._address = address
        self._context: BrowserContext | None = None
        self.faults: list[str] = []

    async def open(
        self, screen: str = "board", *, scheme: Scheme = "light", size: ViewportSize = WIDE
    ) -> Page:
        """A tab with one of the screens; tabs of one viewer share a browser."""
        if self._context is None:
            # The service of workers is not ours to route: nothing is faked here.
            self._context = await self._browser.new_context(
                color_scheme=scheme, viewport=size, timezone_id="UTC", reduced_motion="reduce"
            )
            self._context.set_default_timeout(TIMEOUT_MS)
            self._context.on("console", self._hear)
            self._context.on("weberror", lambda error: self.faults.append(str(error.error)))
            self._context.on("request", self._see)
        page = await self._context.new_page()
        await self.go(page, screen)
        return page

    async def go(self, page: Page, screen: str) -> None:
        await page.goto(f"{self._address}/ui/#/{screen}")

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and OF_THE_NETWORK not in message.text:
            self.faults.append(f"{message.type}: {message.text}")

    def _see(self, request: Request) -> None:
        if not request.url.startswith(f"{self._address}/"):
            self.faults.append(f"a request to elsewhere: {request.url}")

    async def leave(self) -> None:
        """Close everything. Whatever went wrong meanwhile is told now."""
        if self._context is not None:
            await self._context.close()
        assert self.faults == []


def row(page: Page, key: str) -> Locator:
    return page.get_by_role("article", name=key, exact=True)


async def overflow_px(page: Page) -> int:
    """How far the page is wider than its window."""
    wider: Any = await page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return int(wider)
