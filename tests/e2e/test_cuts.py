"""Whatever goes wrong on the way, the page finds back to the truth, and says so meanwhile."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.e2e.flows import ASK
from tests.e2e.line import behind_a_bad_line
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.proves("R1.10")
async def test_an_event_that_cannot_be_read_ends_nothing(browser: Browser, site: Site) -> None:
    site.save("ann")
    ann = site.begun("ann")
    async with behind_a_bad_line(browser, site) as (line, _, page):
        figures = row(page, "ann").get_by_test_id("figures")
        site.tell(ann, {"downloaded": 1})
        await expect(figures).to_contain_text("downloaded1")
        line.garbles = True
        site.tell(ann, {"downloaded": 5})
        await expect(figures).to_contain_text("downloaded5")
        site.tell(ann, {"downloaded": 8})
        await expect(figures).to_contain_text("downloaded8")
        assert not line.garbles


@pytest.mark.proves("R1.10")
async def test_while_the_snapshot_is_awaited_the_page_does_not_pretend_to_be_live(
    browser: Browser, site: Site
) -> None:
    for key in ("ann", "bea"):
        site.save(key)
    ann = site.begun("ann")
    async with behind_a_bad_line(browser, site) as (line, _, page):
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")
        line.swallows = True
        site.tell(ann, "end")
        site.ended(ann)
        await page.wait_for_timeout(500)  # The line has lost it by now.
        line.swallows = False
        line.holds.clear()
        site.begun("bea")  # Its events have numbers that do not follow.
        await expect(page.get_by_role("alert")).to_contain_text("may be out of date")
        line.holds.set()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Done")


@pytest.mark.proves("R1.10")
async def test_whoever_goes_offline_is_told_at_once_and_comes_back(
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
async def test_whoever_is_signed_out_meanwhile_is_asked_for_the_token(
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


async def test_a_reading_that_fails_does_not_take_the_run_away(viewer: Viewer, site: Site) -> None:
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
    site.tell(run_id, {"downloaded": 5})
    await expect(page.get_by_test_id("figures")).to_contain_text("downloaded5")
    while failed == 0:
        await page.wait_for_timeout(50)
    await expect(page.get_by_label("A message for the run")).to_have_value("half a sentence")
    await expect(page.get_by_text("This run cannot be shown")).to_have_count(0)


async def test_jobs_that_cannot_be_read_are_not_said_to_be_none(
    browser: Browser, lone_site: Site
) -> None:
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
async def test_a_log_is_shown_whatever_was_pruned_before_it(
    browser: Browser, lone_site: Site
) -> None:
    site = lone_site
    site.save("ann")
    first = site.begun("ann")
    site.tell(first, "an early line", "end")
    site.ended(first)
    viewer = Viewer(browser, site.address)
    second = site.begun("ann")
    await site.forget_events()
    site.tell(second, "a later line")
    page = await viewer.open(f"runs/{second}")
    # What happened to it before is gone, which is told; what comes is shown.
    await expect(page.get_by_text("Older lines are gone")).to_be_visible()
    site.tell(second, "the last line", "end")
    await expect(page.get_by_role("log", name="Log")).to_contain_text("the last line")
    third = site.begun("ann")
    site.tell(third, "a line of its own")
    await viewer.go(page, f"runs/{third}")
    await expect(page.get_by_role("log", name="Log")).to_contain_text("a line of its own")
    await expect(page.get_by_text("Older lines are gone")).to_have_count(0)
    await page.get_by_role("tab", name="What happened").click()
    await expect(page.get_by_role("log", name="What happened")).to_contain_text("It began.")
    await viewer.leave()


async def test_a_log_that_cannot_be_read_is_not_said_to_be_empty(
    viewer: Viewer, site: Site
) -> None:
    run_id = site.begun("ann", params={"url": "x"})
    site.tell(run_id, "a line")
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


async def test_node_runs_that_cannot_be_read_are_not_said_to_be_none(
    viewer: Viewer, site: Site
) -> None:
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
