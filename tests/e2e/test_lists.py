"""Long lists of runs: correct to the last row, stable while scrolled, and bounded in size."""

import asyncio
import re

import pytest
from playwright.async_api import Browser, Locator, Page, Route, expect

from headway import Headway
from headway.core.command.admin.lane_limits import SetLane
from headway.core.ids import LaneName
from headway.testing import a_submit
from tests.e2e.line import BadLine
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]

BEYOND_A_PAGE = 70


def listed(page: Page, key: str) -> Locator:
    return page.get_by_test_id("run").filter(has=page.get_by_text(key, exact=True))


async def scrolled_to(page: Page, key: str, step_px: int = 1_000) -> Locator:
    """Scroll until the row is visible: downwards, or upwards if the step is negative."""
    for _ in range(400):
        if await listed(page, key).count():
            break
        await page.mouse.wheel(0, step_px)
        await page.wait_for_timeout(30)
    await expect(listed(page, key).first).to_be_visible()
    return listed(page, key)


async def with_limit(route: Route, count: int) -> None:
    await route.continue_(url=re.sub(r"\blimit=\d+", f"limit={count}", route.request.url))


async def with_others_above(site: Site, key: str) -> str:
    """Return the id of a running run that has more than a page of newer ones."""
    run_id = site.begun(key, params={"url": "x"})
    for number in range(BEYOND_A_PAGE):
        site.submit(f"{key}-{number}", job="say")
    return run_id


@pytest.mark.proves("R1.12")
async def test_an_ended_run_stays_ended_in_the_list(viewer: Viewer, site: Site) -> None:
    first = await with_others_above(site, "listed")
    page = await viewer.open("runs")
    runs = await scrolled_to(page, "listed")
    await expect(runs.get_by_test_id("pill")).to_have_text("Running")
    site.send(first, {"downloaded": 2}, "end")
    await expect(runs.get_by_test_id("pill")).to_have_text("Done")
    second = site.begun("listed", params={"url": "x"})
    site.send(second, {"downloaded": 9}, "end")
    site.ended(second)
    # By then the stream contains later events, and none of the first run.
    await expect(page.get_by_role("button", name="newer")).to_be_visible()
    await expect(runs.get_by_test_id("pill")).to_have_text("Done")
    await expect(runs.get_by_test_id("figures")).to_contain_text("downloaded2")


@pytest.mark.proves("R1.10")
async def test_every_page_of_the_list_is_correct_after_missed_events(
    browser: Browser, site: Site
) -> None:
    run_id = await with_others_above(site, "missed")
    async with BadLine(site.address) as line:
        viewer = Viewer(browser, line.address)
        page = await viewer.open("runs")
        runs = await scrolled_to(page, "missed")
        await expect(runs.get_by_test_id("pill")).to_have_text("Running")
        line.swallows = True
        site.send(run_id, {"downloaded": 5}, "end")
        site.ended(run_id)
        await page.wait_for_timeout(500)  # The connection has lost it by now.
        line.swallows = False
        site.submit("later", job="say")
        await expect(runs.get_by_test_id("pill")).to_have_text("Done")
        await viewer.leave()


async def test_a_scrolled_list_does_not_move_and_newer_runs_are_counted(
    viewer: Viewer, site: Site
) -> None:
    site.send(await with_others_above(site, "steady"), "end")
    page = await viewer.open("runs")
    await scrolled_to(page, "steady")
    at_px = await page.evaluate("scrollY")
    for number in range(3):
        site.submit(f"new-{number}", job="say")
    await expect(page.get_by_role("button", name="3 newer")).to_be_visible()
    for number in range(60):
        site.submit(f"newer-{number}", job="say")
    await expect(page.get_by_role("button", name="At least 50 newer")).to_be_visible()
    await expect(listed(page, "steady")).to_be_visible()
    assert await page.evaluate("scrollY") == at_px
    await page.get_by_role("button", name="newer").click()
    await expect(page.get_by_test_id("run").first).to_contain_text("newer-59")
    await expect(page.get_by_role("button", name="newer")).to_have_count(0)


@pytest.mark.parametrize(("count", "page_count"), [(1_250, 50), (260, 10)])
async def test_pages_far_from_the_viewport_are_dropped_and_read_again(
    browser: Browser, lone_site: Site, count: int, page_count: int
) -> None:
    """This holds also if a page has fewer runs than requested because they are large (I20)."""
    async with Headway(lone_site.url).without_engine() as hw:
        await hw.store.apply(SetLane(name=LaneName("still"), is_paused=True))
        await asyncio.gather(
            *(hw.store.apply(a_submit(f"k{number:04}", lane="still")) for number in range(count))
        )
    viewer = Viewer(browser, lone_site.address)
    page = await viewer.open("runs")
    await page.route("**/api/runs?*", lambda route: with_limit(route, page_count))
    await page.reload()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await expect(listed(page, f"k{count - 1:04}")).to_be_visible()
    last = await scrolled_to(page, "k0000", 4_000)
    place = page.get_by_role("listitem").filter(has=last)
    await expect(place).to_have_attribute("aria-posinset", str(count))
    pages = [one for one in asked if "/api/runs?" in one and "cursor" in one]
    assert len(pages) >= count // page_count - 1
    asked.clear()
    await scrolled_to(page, f"k{count - 1:04}", -4_000)
    # The first ones had to be read again.
    assert any("/api/runs?" in one for one in asked)
    assert await page.get_by_test_id("run").count() < 80
    await viewer.leave()
