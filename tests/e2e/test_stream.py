"""All tabs show the same state, also after every kind of interruption."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.line import BadLine, behind_a_bad_line
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.proves("R1.10")
async def test_progress_is_live_and_two_browsers_converge(
    viewer: Viewer, site: Site, browser: Browser
) -> None:
    for key in ("ann", "bea"):
        site.save(key)
    other = Viewer(browser, site.address)
    pages = [await viewer.open(), await other.open()]
    ann, bea = site.begun("ann"), site.begun("bea")
    for number in range(1, 30):
        site.send(ann, {"downloaded": number, "bytes_per_s": 2_500_000})
    site.send(bea, {"fail": "no more"})
    for page in pages:
        figures = row(page, "ann").get_by_test_id("figures")
        await expect(figures).to_contain_text("downloaded29")
        await expect(figures).to_contain_text("rate2.5 MB/s")
        await expect(row(page, "bea").get_by_test_id("pill")).to_have_text("Failed")
    # An action in one browser is shown in the other.
    await row(pages[0], "ann").get_by_role("button", name="Cancel").click()
    await pages[0].get_by_role("menuitem", name="Cancel and keep them").click()
    await expect(row(pages[1], "ann").get_by_test_id("pill")).to_have_text("Cancelled")
    await other.leave()


@pytest.mark.proves("R1.10")
async def test_the_tabs_of_a_browser_share_one_stream(
    viewer: Viewer, site: Site, browser: Browser
) -> None:
    site.save("ann")
    pages = [await viewer.open() for _ in range(8)]  # More tabs than a browser has connections for.
    for page in pages:
        await expect(row(page, "ann").get_by_test_id("pill")).to_be_visible()
    targets = await (await browser.new_browser_cdp_session()).send("Target.getTargets")
    kinds = [target["type"] for target in targets["targetInfos"]]
    assert kinds.count("shared_worker") == 1
    site.begun("ann")
    for page in pages:
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")


@pytest.mark.proves("R1.10")
async def test_a_killed_server_is_shown_and_the_page_recovers_by_itself(
    browser: Browser, lone_site: Site
) -> None:
    site = lone_site
    viewers = [Viewer(browser, site.address) for _ in range(2)]
    for key in ("ann", "bea", "carl"):
        site.save(key)
    site.call("PATCH", "/api/lanes/main", {"max_concurrent": 1})
    ann = site.begun("ann")
    site.send(ann, {"downloaded": 3})
    carl = site.submit("carl")
    pages = [await viewer.open() for viewer in viewers]
    lanes = await viewers[0].open("lanes")
    for page in pages:
        await expect(row(page, "ann").get_by_test_id("figures")).to_contain_text("downloaded3")
        await expect(row(page, "carl").get_by_test_id("when")).to_have_text("position 1")
    await expect(lanes.get_by_test_id("depth")).to_have_attribute("data-pieces", "1")
    for viewer in viewers:
        viewer.may_be_cut = True
    site.kill()
    for page in pages:
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    await pages[0].wait_for_timeout(2_500)  # The number of queued runs is unknown meanwhile.
    site.start()
    site.call("PATCH", "/api/lanes/main", {"max_concurrent": 2})
    # The running run continues, the queued one starts, and another one ends meanwhile.
    site.until(ann, lambda run: run["status"] == "running" and not run["is_waiting"])
    site.until(carl, lambda run: run["status"] == "running")
    site.send(carl, {"downloaded": 5}, "end")
    site.ended(carl)
    for page in pages:
        await expect(page.get_by_role("alert")).to_have_count(0, timeout=30_000)
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")
        await expect(row(page, "carl").get_by_test_id("pill")).to_have_text("Done")
        await expect(row(page, "carl").get_by_test_id("figures")).to_contain_text("downloaded5")
        await expect(row(page, "bea").get_by_test_id("pill")).to_have_text("Idle")
    site.send(ann, {"downloaded": 9})
    for page in pages:
        await expect(row(page, "ann").get_by_test_id("figures")).to_contain_text("downloaded9")
    await expect(lanes.get_by_test_id("depth")).to_have_attribute("data-pieces", "2")
    for viewer in viewers:
        await viewer.leave()


@pytest.mark.proves("R1.10")
async def test_lost_events_are_recovered(browser: Browser, site: Site) -> None:
    for key in ("ann", "bea"):
        site.save(key)
    ann = site.begun("ann")
    async with behind_a_bad_line(browser, site) as (line, _, page):
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")
        taken = line.snapshot_count
        line.swallows = True
        site.send(ann, {"downloaded": 5}, "end")
        site.ended(ann)
        await page.wait_for_timeout(500)  # The connection has lost it by now.
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")
        line.swallows = False
        bea = site.begun("bea")  # Its events have numbers that do not follow.
        for key, word in (("ann", "Done"), ("bea", "Running")):
            await expect(row(page, key).get_by_test_id("pill")).to_have_text(word)
        await expect(row(page, "ann").get_by_test_id("figures")).to_contain_text("downloaded5")
        assert line.snapshot_count == taken + 1
        # Later events are live again.
        site.send(bea, {"downloaded": 8})
        await expect(row(page, "bea").get_by_test_id("figures")).to_contain_text("downloaded8")
        assert line.snapshot_count == taken + 1


@pytest.mark.proves("R1.10")
async def test_a_browser_that_must_resync_reads_the_snapshot_again(
    browser: Browser, site: Site
) -> None:
    site.save("ann")
    ann = site.begun("ann")
    async with BadLine(site.address) as line:
        # For events that the server does not have; it answers with a resync.
        line.asks_ahead = True
        viewer = Viewer(browser, line.address)
        page = await viewer.open()
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")
        while line.snapshot_count < 2:
            await page.wait_for_timeout(20)
        site.send(ann, {"downloaded": 5})
        await expect(row(page, "ann").get_by_test_id("figures")).to_contain_text("downloaded5")
        assert line.snapshot_count == 2  # Later events were live.
        await viewer.leave()


@pytest.mark.proves("S2")
async def test_the_page_asks_for_the_token_once(browser: Browser, tmp_path: Path) -> None:
    site = Site(tmp_path, HEADWAY_TOKEN="a-token-of-some-length")
    site.start()
    try:
        site.save("ann")
        viewer = Viewer(browser, site.address)
        page = await viewer.open()
        await page.get_by_label("Token", exact=True).fill("another-one-of-that-length")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("Invalid token.")).to_be_visible()
        await page.get_by_label("Token", exact=True).fill("a-token-of-some-length")
        await page.get_by_role("button", name="Sign in").click()
        await expect(row(page, "ann")).to_be_visible()
        again = await viewer.open()
        await expect(row(again, "ann")).to_be_visible()
        # No script can read the cookie (S4).
        assert await again.evaluate("document.cookie") == ""
        await viewer.leave()
    finally:
        site.stop()
