"""A row shows the same in every browser after everything that may happen to it."""

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.flows import ASK
from tests.e2e.line import BadLine
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.proves("R2.1")
async def test_a_refused_submission_never_changes_the_row(viewer: Viewer, site: Site) -> None:
    site.save("ann")
    page = await viewer.open()
    run_id = site.begun("ann")
    await site.refuse("ann")  # It comes later than the active run.
    site.send(run_id, {"downloaded": 5}, "end")
    site.ended(run_id)
    for one in (page, await viewer.open()):
        await expect(row(one, "ann").get_by_test_id("pill")).to_have_text("Done")
        await expect(row(one, "ann").get_by_test_id("figures")).to_contain_text("downloaded5")
    await page.reload()
    await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Done")
    await expect(row(page, "ann").get_by_test_id("figures")).to_contain_text("downloaded5")


@pytest.mark.proves("R1.6", "R1.12")
async def test_a_run_that_never_started_hides_neither_earlier_progress_nor_the_continue_button(
    viewer: Viewer, site: Site, browser: Browser
) -> None:
    site.save("ann")
    first = site.begun("ann")
    site.send(first, {"downloaded": 3}, "end")
    site.ended(first)
    site.call("PATCH", "/api/lanes/main", {"max_concurrent": 0})
    page = await viewer.open()
    await row(page, "ann").get_by_role("button", name="Start new").click()
    await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Queued")
    await row(page, "ann").get_by_role("button", name="Cancel").click()
    other = Viewer(browser, site.address)
    for one in (page, await other.open()):
        await expect(row(one, "ann").get_by_test_id("pill")).to_have_text("Idle")
        await expect(row(one, "ann").get_by_test_id("figures")).to_contain_text("downloaded3")
    await other.leave()
    site.call("PATCH", "/api/lanes/main", {"max_concurrent": 3})
    await row(page, "ann").get_by_role("button", name="Continue").click()
    await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")
    [run] = site.call("GET", "/api/runs?key=ann&status=running")["runs"]
    assert run["continued_from"] == first


@pytest.mark.proves("R1.10")
async def test_a_row_without_a_saved_key_stays_and_also_appears_on_a_newly_opened_page(
    viewer: Viewer, site: Site, browser: Browser
) -> None:
    page = await viewer.open()
    run_id = site.begun("guest", params={"url": "x"})
    guest = row(page, "guest")
    await expect(guest.get_by_test_id("pill")).to_have_text("Running")
    site.send(run_id, {"downloaded": 4}, "end")
    other = Viewer(browser, site.address)
    for one in (page, await other.open()):
        guest = row(one, "guest")
        await expect(guest.get_by_test_id("pill")).to_have_text("Done")
        await expect(guest.get_by_test_id("figures")).to_contain_text("downloaded4")
        await guest.get_by_role("button", name="More for guest").click()
        await expect(one.get_by_role("menuitem", name="All runs of this key")).to_be_visible()
        await expect(one.get_by_role("menuitem", name="Remove the row")).to_have_count(0)
    await other.leave()


async def test_a_refusal_is_shown_until_the_next_run_starts(viewer: Viewer, site: Site) -> None:
    site.save("mona")
    page = await viewer.open()
    mona = row(page, "mona")
    await mona.get_by_role("button", name="Parameters of mona").click()
    await mona.get_by_label("Url").fill("")
    await mona.get_by_role("button", name="Start new").click()
    await expect(mona.get_by_test_id("reason")).to_contain_text("url")
    run_id = site.begun("mona", params={"url": "x"})
    await expect(mona.get_by_test_id("reason")).to_have_count(0)
    site.send(run_id, "end")
    await expect(mona.get_by_test_id("pill")).to_have_text("Done")
    await expect(mona.get_by_test_id("reason")).to_have_count(0)


async def test_a_draft_never_overwrites_parameters_saved_by_another_person(
    viewer: Viewer, site: Site
) -> None:
    site.save("ann")
    page = await viewer.open()
    ann = row(page, "ann")
    await ann.get_by_role("button", name="Parameters of ann").click()
    await ann.get_by_label("Url").fill("https://example.org/mine")
    site.save("ann", page_max=9)
    await expect(ann).to_contain_text("Somebody else has changed this row")
    await ann.get_by_role("button", name="Start new").click()
    await expect(ann.get_by_test_id("reason")).to_contain_text("Somebody else has changed")
    [saved] = site.call("GET", "/api/keys")["keys"]
    assert (saved["params"]["url"], saved["params"]["page_max"]) == ("https://example.org/ann", 9)
    assert site.call("GET", "/api/state")["runs"] == []
    await ann.get_by_role("button", name="Show theirs").click()
    await expect(ann.get_by_label("Url")).to_have_value("https://example.org/ann")
    await expect(ann.get_by_label("Page max")).to_have_value("9")


async def test_a_row_is_not_added_twice(browser: Browser, site: Site) -> None:
    site.save("zoe")
    async with BadLine(site.address) as line:
        viewer = Viewer(browser, line.address)
        page = await viewer.open()
        await page.get_by_role("button", name="Add a row").click()
        dialog = page.get_by_role("dialog", name="Add a row")
        await dialog.get_by_label("Key").fill("ann")
        await dialog.get_by_label("Job").click()
        await page.get_by_role("option", name="say").click()
        line.swallows = True  # The page does not receive events of other changes.
        site.save("ann")
        await dialog.get_by_role("button", name="Add", exact=True).click()
        await expect(dialog.get_by_role("alert")).to_contain_text("a row for ann already")
        ann, _ = site.call("GET", "/api/keys")["keys"]
        assert ann["job"] == "mirror"
        await viewer.leave()


@pytest.mark.proves("R1.12")
async def test_the_dialog_shows_why_a_choice_was_refused(viewer: Viewer, site: Site) -> None:
    for key in ("full", "bea"):
        site.save(key)
    first = site.begun("full")
    site.send(first, {"file": "1.jpg"}, "end")
    site.ended(first)
    page = await viewer.open()
    await page.get_by_text("Inactive", exact=True).first.click()
    await row(page, "full").get_by_role("button", name="Start new").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("1.jpg")
    second = site.begun("full", mode="continue")
    await expect(row(page, "full")).to_have_count(0)  # It is not idle, so it is not shown.
    await dialog.get_by_role("button", name="Replace").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("already has an active run")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    site.send(second, "end")


@pytest.mark.proves("R1.12")
async def test_the_rate_is_hidden_when_no_more_progress_arrives(viewer: Viewer, site: Site) -> None:
    site.save("ann")
    page = await viewer.open()
    run_id = site.begun("ann")
    site.send(run_id, {"downloaded": 7, "bytes_per_s": 2_500_000})
    figures = row(page, "ann").get_by_test_id("figures")
    await expect(figures).to_contain_text("rate2.5 MB/s")
    # No more progress arrives: the total stays, the rate does not.
    await expect(figures).not_to_contain_text("MB/s", timeout=30_000)
    await expect(figures).to_contain_text("downloaded7")


@pytest.mark.proves("R5.11")
async def test_a_row_of_a_task_links_to_the_task(viewer: Viewer, site: Site) -> None:
    site.publish("on the board", ASK)
    task_id = site.started("on the board", key="order-7")
    site.waiting(task_id, "approval")
    page = await viewer.open()
    order = row(page, "order-7")
    await expect(order.get_by_test_id("row-why")).to_contain_text("waits for an answer")
    await expect(order.get_by_role("link", name="see the inbox")).to_be_visible()
    site.call("POST", f"/api/tasks/{task_id}/cancel", {"reason": ""})
    await expect(order.get_by_test_id("pill")).to_have_text("Cancelled")
    # Only the task can be run again, not the job behind it.
    await expect(order.get_by_role("button", name="Start new")).to_have_count(0)
    await viewer.go(page, f"runs/{task_id}")
    await expect(page.get_by_role("button", name="Run again")).to_have_count(0)
    await page.get_by_role("link", name="Run again from a node").click()
    await expect(page.get_by_role("button", name="Run again from…")).to_be_visible()
    await viewer.go(page, "board")
    await order.get_by_role("link", name="Task of a flow").click()
    await expect(page.get_by_role("heading", name="order-7")).to_be_visible()
