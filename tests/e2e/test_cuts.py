"""After any error on the connection the page recovers, and shows that it is not live meanwhile."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.e2e.flows import ASK
from tests.e2e.line import behind_a_bad_line
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.proves("R1.10")
async def test_an_unreadable_event_does_not_end_the_stream(browser: Browser, site: Site) -> None:
    site.save("ann")
    ann = site.begun("ann")
    async with behind_a_bad_line(browser, site) as (line, _, page):
        figures = row(page, "ann").get_by_test_id("figures")
        site.send(ann, {"downloaded": 1})
        await expect(figures).to_contain_text("downloaded1")
        line.garbles = True
        site.send(ann, {"downloaded": 5})
        await expect(figures).to_contain_text("downloaded5")
        site.send(ann, {"downloaded": 8})
        await expect(figures).to_contain_text("downloaded8")
        assert not line.garbles


@pytest.mark.proves("R1.10")
async def test_the_page_is_not_shown_as_live_while_the_snapshot_is_pending(
    browser: Browser, site: Site
) -> None:
    for key in ("ann", "bea"):
        site.save(key)
    ann = site.begun("ann")
    async with behind_a_bad_line(browser, site) as (line, _, page):
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")
        line.swallows = True
        site.send(ann, "end")
        site.ended(ann)
        await page.wait_for_timeout(500)  # The connection has lost it by now.
        line.swallows = False
        line.holds.clear()
        site.begun("bea")  # Its events have numbers that do not follow.
        await expect(page.get_by_role("alert")).to_contain_text("may be out of date")
        line.holds.set()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Done")


@pytest.mark.proves("R1.10")
async def test_the_page_reports_at_once_that_the_browser_is_offline_and_recovers(
    browser: Browser, site: Site
) -> None:
    site.save("ann")
    async with behind_a_bad_line(browser, site) as (line, viewer, page):
        await expect(row(page, "ann")).to_be_visible()
        line.holds.clear()
        viewer.may_be_cut = True
        await page.context.set_offline(True)
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        site.begun("ann")
        line.holds.set()
        await page.context.set_offline(False)
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")


@pytest.mark.proves("S2")
async def test_a_browser_that_was_signed_out_asks_for_the_token(
    browser: Browser, tmp_path: Path
) -> None:
    site = Site(tmp_path, HEADWAY_TOKEN="a-token-of-some-length")
    site.start()
    try:
        site.save("ann")
        viewer = Viewer(browser, site.address)
        page = await viewer.open()
        await page.get_by_label("Token", exact=True).fill("a-token-of-some-length")
        await page.get_by_role("button", name="Sign in").click()
        await expect(row(page, "ann")).to_be_visible()
        await page.context.clear_cookies()  # The stream stays open.
        await row(page, "ann").get_by_role("button", name="Start new").click()
        await page.get_by_label("Token", exact=True).fill("a-token-of-some-length")
        await page.get_by_role("button", name="Sign in").click()
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Idle")
        await viewer.leave()
    finally:
        site.stop()


async def test_a_failed_read_does_not_remove_the_run_from_the_page(
    viewer: Viewer, site: Site
) -> None:
    run_id = site.begun("ann", params={"url": "x"})
    page = await viewer.open(f"runs/{run_id}")
    await expect(page.get_by_role("heading", name="ann")).to_be_visible()
    await page.get_by_label("A message for the run").fill("half a sentence")
    failed = 0
    viewer.refusals[400] = r"/api/runs/[^/]+"

    async def fail(route: Route) -> None:
        nonlocal failed
        failed += 1
        await route.fulfill(status=400, json={"detail": "no"})

    await page.route(f"**/api/runs/{run_id}", fail)
    site.send(run_id, {"downloaded": 5})
    await expect(page.get_by_test_id("figures")).to_contain_text("downloaded5")
    while failed == 0:
        await page.wait_for_timeout(50)
    await expect(page.get_by_label("A message for the run")).to_have_value("half a sentence")
    await expect(page.get_by_text("This run cannot be shown")).to_have_count(0)


async def test_unreadable_jobs_are_not_shown_as_no_jobs(browser: Browser, lone_site: Site) -> None:
    viewer = Viewer(browser, lone_site.address)
    viewer.refusals[400] = "/api/jobs"
    page = await viewer.open("lanes")
    await page.route("**/api/jobs", lambda route: route.fulfill(status=400, json={}))
    await viewer.go(page, "board")
    await page.reload()
    await expect(page.get_by_text("Which jobs there are cannot be read.")).to_be_visible()
    await expect(page.get_by_text("This server has no jobs.")).to_have_count(0)
    await viewer.leave()


@pytest.mark.proves("R1.10")
async def test_a_log_is_shown_although_earlier_events_were_pruned(
    browser: Browser, lone_site: Site
) -> None:
    site = lone_site
    site.save("ann")
    first = site.begun("ann")
    site.send(first, "an early line", "end")
    site.ended(first)
    viewer = Viewer(browser, site.address)
    second = site.begun("ann")
    await site.forget_events()
    site.send(second, "a later line")
    page = await viewer.open(f"runs/{second}")
    # The earlier events are gone, which the page shows; new ones are shown.
    await expect(page.get_by_text("Older lines are gone")).to_be_visible()
    site.send(second, "the last line", "end")
    await expect(page.get_by_role("log", name="Log")).to_contain_text("the last line")
    third = site.begun("ann")
    site.send(third, "a line of its own")
    await viewer.go(page, f"runs/{third}")
    await expect(page.get_by_role("log", name="Log")).to_contain_text("a line of its own")
    await expect(page.get_by_text("Older lines are gone")).to_have_count(0)
    await page.get_by_role("tab", name="What happened").click()
    await expect(page.get_by_role("log", name="What happened")).to_contain_text("It began.")
    await viewer.leave()


async def test_an_unreadable_log_is_not_shown_as_empty(viewer: Viewer, site: Site) -> None:
    run_id = site.begun("ann", params={"url": "x"})
    site.send(run_id, "a line")
    viewer.refusals[500] = r"/api/runs/[^/]+/events"
    page = await viewer.open("board")
    pattern = f"**/api/runs/{run_id}/events*"
    await page.route(pattern, lambda route: route.fulfill(status=500, json={"detail": "broken"}))
    await viewer.go(page, f"runs/{run_id}")
    await expect(page.get_by_role("alert")).to_contain_text("Not everything could be read. Broken.")
    await expect(page.get_by_text("The job has not said anything.")).to_have_count(0)
    await page.unroute(pattern)
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("log", name="Log")).to_contain_text("a line")


async def test_unreadable_node_runs_are_not_shown_as_none(viewer: Viewer, site: Site) -> None:
    site.publish("unread", ASK)
    task_id = site.started("unread")
    site.waiting(task_id, "approval")
    page = await viewer.open("board")
    viewer.refusals[500] = r"/api/tasks/[^/]+/node-runs.*"
    pattern = f"**/api/tasks/{task_id}/node-runs*"
    await page.route(pattern, lambda route: route.fulfill(status=500, json={"detail": "broken"}))
    await viewer.go(page, f"tasks/{task_id}")
    await expect(page.get_by_role("alert")).to_contain_text(
        "Not all of them could be read. Broken."
    )
    await expect(page.get_by_text("No node has been at work yet.")).to_have_count(0)
    await page.unroute(pattern)
    site.call("POST", f"/api/tasks/{task_id}/approve", {"answer": True})
    await expect(page.get_by_role("alert")).to_have_count(0)
