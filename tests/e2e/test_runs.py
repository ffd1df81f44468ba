"""The list of runs, and the page of a run."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, everywhere

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


async def test_the_list_loads_more_when_scrolled_and_shows_new_runs(
    viewer: Viewer, site: Site
) -> None:
    for number in range(120):
        site.submit(f"k{number:03}", job="say", params={"said": number})
    page = await viewer.open("runs?job=say")
    runs = page.get_by_test_id("run")
    await expect(runs.first).to_contain_text("k119")
    for _ in range(30):
        await page.mouse.wheel(0, 2_000)
        if await page.get_by_text("k000", exact=True).count():
            break
        await page.wait_for_timeout(50)
    await expect(page.get_by_text("k000", exact=True)).to_be_visible()
    # Only visible rows are drawn.
    assert await runs.count() < 80
    await page.evaluate("scrollTo(0, 0)")
    site.submit("newest", job="say")
    await expect(runs.first).to_contain_text("newest")


@everywhere
async def test_the_list_is_filtered_and_the_filter_is_in_the_url(
    viewer: Viewer, site: Site
) -> None:
    failed = site.begun("fay", params={"url": "x"})
    site.send(failed, {"fail": "no luck"})
    site.ended(failed)
    site.submit("gus", job="say")
    page = await viewer.open("runs")
    await page.get_by_role("combobox", name="Status").click()
    await page.get_by_role("option", name="Failed", exact=True).click()
    await expect(page.get_by_test_id("run").first).to_contain_text("no luck")
    await expect(page.get_by_text("gus", exact=True)).to_have_count(0)
    await page.reload()
    await expect(page.get_by_test_id("run").first).to_contain_text("no luck")
    await expect(page.get_by_text("gus", exact=True)).to_have_count(0)


@pytest.mark.proves("R7.11")
async def test_a_failed_run_shows_its_traceback(viewer: Viewer, site: Site) -> None:
    failed = site.begun("fay", params={"url": "x"})
    site.send(failed, {"fail": "no luck"})
    site.ended(failed)
    page = await viewer.open(f"runs/{failed}")
    traceback = page.get_by_label("Traceback", exact=True)
    await expect(traceback).to_be_hidden()
    await page.get_by_text("Traceback", exact=True).click()
    await expect(traceback).to_contain_text("Traceback (most recent call last):")
    await expect(traceback).to_contain_text("no luck")


@everywhere
async def test_a_run_shows_its_log_live_takes_messages_and_is_cancelled(
    viewer: Viewer, site: Site
) -> None:
    run_id = site.begun("ann", params={"url": "https://example.org/ann"})
    page = await viewer.open(f"runs/{run_id}")
    site.send(run_id, "first line", {"log": "mind the gap", "level": "warning"})
    log = page.get_by_role("log", name="Log")
    await expect(log).to_contain_text("first line")
    await expect(log).to_contain_text("mind the gap")
    await page.get_by_label("A message for the run").fill("from the page")
    await page.keyboard.press("Enter")
    await expect(log).to_contain_text("from the page")
    await expect(page.get_by_label("Parameters")).to_contain_text("https://example.org/ann")
    await page.get_by_role("tab", name="What happened").click()
    await expect(page.get_by_role("log", name="What happened")).to_contain_text("It began.")
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("menuitem", name="Cancel and keep them").click()
    await expect(page.get_by_test_id("pill")).to_have_text("Cancelled")
    await expect(page.get_by_role("button", name="Run again")).to_be_visible()


@everywhere
@pytest.mark.proves("R4.11", "I26")
async def test_a_message_waits_until_the_run_listens_and_is_reported_if_never_read(
    viewer: Viewer, site: Site, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = site.begun(str(gate), "ignore")
    page = await viewer.open(f"runs/{run_id}")
    box = page.get_by_label("A message for the run")
    await box.fill("are you there?")
    await box.press("Enter")
    await expect(page.get_by_text("The run does not listen for messages now.")).to_be_visible()
    await expect(box).to_have_value("are you there?")
    await page.get_by_role("button", name="Deliver when it listens").click()
    await expect(page.get_by_role("status")).to_contain_text("It waits until the run listens.")
    await expect(box).to_have_value("")
    gate.touch()
    await expect(page.get_by_test_id("pill")).to_have_text("Done")
    await page.get_by_role("tab", name="What happened").click()
    happened = page.get_by_role("log", name="What happened")
    await expect(happened).to_contain_text("It ended without reading a message: are you there?")


async def test_a_run_that_does_not_progress_shows_why(viewer: Viewer, site: Site) -> None:
    site.call("PATCH", "/api/lanes/main", {"paused": True})
    run_id = site.submit("ann", params={"url": "x"})
    page = await viewer.open(f"runs/{run_id}")
    await expect(page.get_by_test_id("why")).to_contain_text("paused")
    site.call("PATCH", "/api/lanes/main", {"paused": False})
    await expect(page.get_by_test_id("pill")).to_have_text("Running")
    await expect(page.get_by_test_id("why")).to_have_count(0)


@pytest.mark.proves("R1.5")
async def test_a_run_of_a_busy_key_is_refused_and_the_page_shows_it(
    viewer: Viewer, site: Site
) -> None:
    first = site.begun("ann", params={"url": "x"})
    site.send(first, "end")
    site.ended(first)
    second = site.begun("ann", params={"url": "x"})
    page = await viewer.open(f"runs/{first}")
    await page.get_by_role("button", name="Run again").click()
    await expect(page.get_by_role("alert")).to_contain_text("already has an active run")
    site.send(second, "end")
    site.ended(second)
    await page.get_by_role("button", name="Run again").click()
    await expect(page.get_by_test_id("pill")).to_have_text("Running")


async def test_an_unknown_run_is_reported(viewer: Viewer, site: Site) -> None:
    page = await viewer.open("runs/0199c3f2-7c1e-7a55-9d0b-2f6f2f1f9a10")
    await expect(page.get_by_text("This run cannot be shown")).to_be_visible()


@pytest.mark.proves("R1.8")
async def test_a_run_shows_its_output_files(viewer: Viewer, site: Site) -> None:
    run_id = site.begun("ann", params={"url": "x"})
    page = await viewer.open(f"runs/{run_id}")
    await expect(page.get_by_test_id("pill")).to_have_text("Running")
    await expect(page.get_by_test_id("files")).to_have_count(0)
    site.send(run_id, {"file": "photos/1.jpg"}, {"file": "photos/2.jpg"})
    files = page.get_by_test_id("files")
    await expect(files.get_by_role("listitem")).to_have_count(2)
    await expect(files).to_contain_text("photos/1.jpg9 B")
