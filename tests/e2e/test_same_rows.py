"""A page that followed the stream and a page that was just opened show the same rows (R1.10)."""

from typing import Final

import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect

from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]

TALL: Final = ViewportSize(width=1440, height=6_000)
"""The page draws only the visible rows."""
KEYED_COUNT: Final = 25 + 3
KEYLESS_COUNT: Final = 12 + 4


def make_history(site: Site) -> list[str]:
    """Make 50 runs without a saved row; return the keys of those that are still active."""
    site.call("PATCH", "/api/lanes/main", {"max_concurrent": 10})
    for number in range(30):
        run_id = site.begun(f"adhoc-{number % 25}", params={"url": "x"})
        site.send(run_id, {"downloaded": number}, {"fail": "no"} if number % 3 else "end")
        site.ended(run_id)
    for number in range(12):
        run_id = site.begun(None, params={"url": "x"})
        site.send(run_id, {"downloaded": number}, {"fail": "no"} if number % 2 else "end")
        site.ended(run_id)
    active = [site.begun(None, params={"url": "x"}), site.begun("busy", params={"url": "x"})]
    site.call("PATCH", "/api/lanes/main", {"paused": True})
    for key in ("adhoc-3", "queued", None, None):
        run_id = site.submit(key, params={"url": "x"})
        site.call("POST", f"/api/runs/{run_id}/cancel", {})
        site.ended(run_id)
    active += [site.submit(None, params={"url": "x"}), site.submit("late", params={"url": "x"})]
    return active


async def shown_rows(page: Page) -> list[tuple[str | None, str, str]]:
    """Return the key, the state and the figures of each row."""
    rows = page.get_by_test_id("row")
    shown = []
    for index in range(await rows.count()):
        row = rows.nth(index)
        figures = row.get_by_test_id("figures")
        progress = await figures.inner_text() if await figures.count() else ""
        pill = await row.get_by_test_id("pill").inner_text()
        shown.append((await row.get_attribute("data-row"), pill, progress))
    return shown


@pytest.mark.proves("R1.10", "R1.12")
async def test_old_page_and_fresh_page_show_the_same_rows_in_the_same_order(
    browser: Browser, site: Site
) -> None:
    old, fresh = Viewer(browser, site.address, size=TALL), Viewer(browser, site.address, size=TALL)
    old_page = await old.open()
    active = make_history(site)
    fresh_page = await fresh.open()
    for page in (old_page, fresh_page):
        await expect(page.get_by_test_id("row")).to_have_count(KEYED_COUNT + KEYLESS_COUNT)
        for run_id in (active[0], active[2]):
            await expect(row(page, run_id)).to_be_visible()
        await expect(row(page, "adhoc-3").get_by_test_id("pill")).to_have_text("Idle")
    rows = await shown_rows(fresh_page)
    assert await shown_rows(old_page) == rows
    keys = [key for key, _, _ in rows]
    assert keys[:3] == ["adhoc-0", "adhoc-1", "adhoc-2"]
    assert keys[KEYED_COUNT - 3 : KEYED_COUNT] == ["busy", "late", "queued"]
    assert keys[KEYED_COUNT] == active[2]  # Runs without a key: the newest first.
    await old_page.reload()
    await expect(old_page.get_by_test_id("row")).to_have_count(len(rows))
    assert await shown_rows(old_page) == rows
    await old.leave()
    await fresh.leave()


@pytest.mark.proves("R1.10")
async def test_run_without_a_key_has_a_row_with_its_job_and_can_be_cancelled(
    viewer: Viewer, site: Site
) -> None:
    page = await viewer.open()
    run_id = site.begun(None, params={"url": "x"})
    keyless = row(page, run_id)
    await expect(keyless.get_by_role("link", name=f"mirror {run_id[-8:]}")).to_be_visible()
    await keyless.get_by_role("button", name="Cancel").click()
    await page.get_by_role("menuitem", name="Cancel and keep them").click()
    await expect(keyless.get_by_test_id("pill")).to_have_text("Cancelled")
    await expect(keyless.get_by_role("button", name="Start new")).to_have_count(0)
