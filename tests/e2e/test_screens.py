"""Every screen, light and dark, wide and narrow, is fit for everybody."""

from typing import Final

import pytest
from playwright.async_api import Page, ViewportSize, expect

from tests.e2e.site import ROOT, Site
from tests.e2e.viewer import NARROW, WIDE, Scheme, Viewer, overflow_px, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]

AXE: Final = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
IMAGES: Final = ROOT / "docs" / "images"


def a_busy_day(site: Site) -> str:
    """Rows in every state; the run of the first is given back."""
    site.call("PATCH", "/api/lanes/agents", {"max_concurrent": 2})
    for key in ("ada", "brian", "clara", "dmitri", "edsger", "frances", "grace", "hedy"):
        site.save(key, url=f"https://example.org/{key}/feed")
    first = site.begun("ada")
    site.tell(first, {"file": "photos/128.jpg"})
    for line in ("page 3 of 12", "photos/126.jpg", "photos/127.jpg", "page 4 of 12"):
        site.tell(first, line)
    site.tell(first, {"log": "photos/97.jpg is gone", "level": "warning"}, "photos/128.jpg")
    figures = {"downloaded": 128, "skipped": 12, "filtered": 3, "page": 4}
    site.tell(first, {**figures, "bytes_per_s": 1_240_000})
    for key, end in (("clara", "end"), ("dmitri", {"fail": "the feed answers 403 Forbidden"})):
        run_id = site.begun(key)
        site.tell(run_id, {"downloaded": 311, "skipped": 40, "filtered": 9}, end)
        site.ended(run_id)
    second = site.begun("brian")
    site.tell(second, {"downloaded": 7, "skipped": 0, "filtered": 1, "page": 1})
    site.begun("edsger")
    for key in ("frances", "grace"):
        site.submit(key)
    asks = site.begun("tidy-2026", job="agent", params={"goal": "Tidy up the archive"})
    site.tell(asks, {"tool": "delete_files", "folder": "/srv/archive/2019", "count": 9})
    schema = {
        "type": "object",
        "properties": {
            "tone": {"enum": ["kind", "short"], "default": "kind"},
            "sign_as": {"type": "string", "default": "The team"},
        },
    }
    reply = site.begun("mail-118", job="agent", params={"goal": "Answer the mail"})
    site.tell(reply, {"title": "How shall it answer?", "from": "jo@example.org", "schema": schema})
    return first


async def violations(page: Page) -> list[str]:
    """What axe finds, of the kinds that shut somebody out."""
    # As a reader of the page would be given it, past the content policy.
    session = await page.context.new_cdp_session(page)
    await session.send("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    found = await page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


async def show(page: Page, viewer: Viewer, screen: str, first: str) -> None:
    """Go to the screen, and wait until what it is about is there."""
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
            await viewer.go(page, f"runs/{first}")
            await expect(page.get_by_role("log", name="Log")).to_contain_text("128.jpg")
        case "inbox":
            await viewer.go(page, "inbox")
            await expect(page.get_by_test_id("question")).to_have_count(2)
        case _:
            await viewer.go(page, screen)
            await expect(page.get_by_test_id("lane").first).to_be_visible()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1440", "390"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_screen_is_fit_for_everybody(
    viewer: Viewer, site: Site, request: pytest.FixtureRequest, scheme: Scheme, size: ViewportSize
) -> None:
    first = a_busy_day(site)
    page = await viewer.open(scheme=scheme, size=size)
    for screen in ("board", "form", "runs", "run", "inbox", "lanes"):
        await show(page, viewer, screen, first)
        assert await violations(page) == [], (screen, scheme, size)
        assert await overflow_px(page) == 0, (screen, scheme, size)
        if request.config.getoption("--write-screenshots"):
            await page.screenshot(path=IMAGES / f"{screen}-{scheme}-{size['width']}.png")


async def test_an_empty_board_and_a_dialog_are_fit_for_everybody(
    viewer: Viewer, site: Site
) -> None:
    page = await viewer.open()
    await expect(page.get_by_text("No rows yet")).to_be_visible()
    assert await violations(page) == []
    await page.get_by_role("button", name="Add the first row").click()
    await expect(page.get_by_role("dialog", name="Add a row")).to_be_visible()
    assert await violations(page) == []
