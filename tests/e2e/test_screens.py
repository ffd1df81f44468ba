"""Every screen is accessible, in light and dark colors, wide and narrow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect

from tests.e2e.day import Day, a_busy_day
from tests.e2e.drawing import write, written
from tests.e2e.site import ROOT, Site
from tests.e2e.viewer import NARROW, WIDE, Scheme, Viewer, overflow_px, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]

AXE: Final = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
IMAGES: Final = ROOT / "docs" / "images"


SCREENS: Final = (
    *("board", "form", "runs", "run", "done", "inbox", "lanes", "workers"),
    *("flows", "flow", "editor", "tasks", "task", "start"),
)
# Parts of a picture's name: the screen, the color scheme, the width.
LOOKS: Final[tuple[tuple[Scheme, ViewportSize], ...]] = (
    ("light", WIDE),
    ("light", NARROW),
    ("dark", WIDE),
    ("dark", NARROW),
)
TOKEN: Final = "a-token-of-some-length"


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Day]]:
    """A site of its own, so that the pictures show this day and nothing else."""
    folder = tmp_path_factory.mktemp("day")
    site = Site(folder)
    site.start()
    try:
        yield site, a_busy_day(site, folder)
    finally:
        site.stop()


async def violations(page: Page) -> list[str]:
    """Return the serious and critical violations that axe reports."""
    # Evaluated outside the page's content policy, as a browser extension would be.
    session = await page.context.new_cdp_session(page)
    await session.send("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    rules = await page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for rule in rules
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


async def check(page: Page, viewer: Viewer, screen: str, request: pytest.FixtureRequest) -> None:
    """Check accessibility, and take a picture if pictures are requested."""
    assert await violations(page) == [], (screen, viewer.scheme, viewer.size)
    assert await overflow_px(page) == 0, (screen, viewer.scheme, viewer.size)
    if request.config.getoption("--write-screenshots"):
        await page.mouse.move(0, 0)
        name = f"{screen}-{viewer.scheme}-{viewer.size['width']}.png"
        await page.screenshot(path=IMAGES / name)


async def show(page: Page, viewer: Viewer, screen: str, day: Day) -> None:
    """Open the screen, and wait until its content is there."""
    match screen:
        case "board":
            await viewer.go(page, "board")
            await expect(row(page, "ada").get_by_test_id("figures")).to_contain_text("128")
        case "form":
            await viewer.go(page, "board")
            await row(page, "hedy").get_by_role("button", name="Parameters of hedy").click()
            await expect(row(page, "hedy").get_by_label("Url")).to_be_visible()
        case "runs":
            await viewer.go(page, "runs")
            await expect(page.get_by_test_id("run").first).to_be_visible()
        case "run":
            await viewer.go(page, f"runs/{day.run}")
            await expect(page.get_by_role("log", name="Log")).to_contain_text("128.jpg")
        case "done":
            await viewer.go(page, f"runs/{day.done}")
            await expect(page.get_by_label("Result")).to_contain_text("photos")
        case "inbox":
            await viewer.go(page, "inbox")
            await expect(page.get_by_test_id("question")).to_have_count(2)
            await expect(page.get_by_test_id("waiting")).to_contain_text("Bea")
        case "lanes":
            await viewer.go(page, "lanes")
            await expect(page.get_by_test_id("lane").first).to_be_visible()
            await expect(page.get_by_test_id("depth").first).to_be_visible()
        case "workers":
            await viewer.go(page, "workers")
            await expect(
                page.get_by_test_id("worker").get_by_role("link", name="order-1005")
            ).to_be_visible()
            await expect(page.get_by_test_id("instance")).to_contain_text("ada")
        case "task":
            await viewer.go(page, f"tasks/{day.task}")
            await expect(page.get_by_test_id("node-run").first).to_be_visible()
            await page.get_by_test_id("node-run").nth(1).click()
            await expect(page.get_by_test_id("node-run-details")).to_be_visible()
        case "flows":
            await viewer.go(page, "flows")
            await expect(page.get_by_test_id("flow").first).to_be_visible()
            await expect(page.get_by_text("1 running")).to_be_visible()
        case _:
            await show_flow(page, viewer, screen)


async def show_flow(page: Page, viewer: Viewer, screen: str) -> None:
    address = "flows/order%20to%20parcel"
    match screen:
        case "flow":
            await viewer.go(page, address)
            await page.get_by_test_id("node").nth(1).click()
            await expect(page.get_by_test_id("node-panel")).to_be_visible()
        case "editor":
            await viewer.go(page, f"{address}?tab=definition")
            await write(page, (await written(page)).replace('"approval"', '"magic"'))
            await expect(page.get_by_test_id("issue")).to_have_count(1)
            await page.get_by_test_id("issue").click()
        case "tasks":
            await viewer.go(page, f"{address}?tab=tasks")
            await expect(page.get_by_test_id("task").first).to_be_visible()
        case _:
            assert screen == "start"
            await viewer.go(page, address)
            await page.get_by_role("button", name="Start a task").click()
            await expect(page.get_by_label("customer")).to_be_visible()


@pytest.mark.parametrize(("scheme", "size"), LOOKS)
async def test_every_screen_is_accessible(
    browser: Browser,
    staged: tuple[Site, Day],
    request: pytest.FixtureRequest,
    scheme: Scheme,
    size: ViewportSize,
) -> None:
    site, day = staged
    viewer = Viewer(browser, site.address, scheme=scheme, size=size)
    page = await viewer.open()
    for screen in SCREENS:
        await show(page, viewer, screen, day)
        await check(page, viewer, screen, request)
    await viewer.leave()


async def test_rare_screens_are_accessible(
    browser: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Signing in, an empty board, dialogs, menus, and the banner of an unreachable server."""
    site = Site(tmp_path, HEADWAY_TOKEN=TOKEN)
    site.start()
    viewers = [Viewer(browser, site.address, scheme=scheme, size=size) for scheme, size in LOOKS]
    pages = [await viewer.open() for viewer in viewers]
    for viewer, page in zip(viewers, pages, strict=True):
        await sign_in_to_nothing(page, viewer, request)
    site.save("ada", url="https://example.org/ada/feed")
    run_id = site.begun("ada")
    site.send(run_id, {"file": "photos/1.jpg"}, {"downloaded": 1}, "end")
    site.ended(run_id)
    for viewer, page in zip(viewers, pages, strict=True):
        await open_what_opens(page, viewer, request)
    for viewer in viewers:
        viewer.may_be_cut = True
    site.kill()
    for viewer, page in zip(viewers, pages, strict=True):
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        await check(page, viewer, "banner", request)
        await viewer.leave()


async def sign_in_to_nothing(page: Page, viewer: Viewer, request: pytest.FixtureRequest) -> None:
    await expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    await check(page, viewer, "sign-in", request)
    await page.get_by_label("Token", exact=True).fill(TOKEN)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_text("No rows yet")).to_be_visible()
    await check(page, viewer, "empty", request)
    await page.get_by_role("button", name="Add the first row").click()
    await expect(page.get_by_role("dialog", name="Add a row")).to_be_visible()
    assert await violations(page) == []
    await page.keyboard.press("Escape")
    for screen, words in (
        ("runs", "No runs yet"),
        ("flows", "No flows yet"),
        ("tasks", "No tasks yet"),
        ("inbox", "Nobody waits for you"),
        ("workers", "No workers"),
    ):
        await viewer.go(page, screen)
        await expect(page.get_by_text(words)).to_be_visible()
        assert await violations(page) == [], screen
    await viewer.go(page, "board")


async def open_what_opens(page: Page, viewer: Viewer, request: pytest.FixtureRequest) -> None:
    ada = row(page, "ada")
    await expect(ada.get_by_test_id("pill")).to_have_text("Done")
    await ada.get_by_role("button", name="Start new").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("photos/1.jpg")
    await check(page, viewer, "existing", request)
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    for button in (ada.get_by_role("button", name="More for ada"), page.get_by_label("Colours")):
        await button.click()
        await expect(page.get_by_role("menu")).to_be_visible()
        assert await violations(page) == []
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("menu")).to_have_count(0)
        await button.blur()
