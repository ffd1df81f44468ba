"""Changes by others appear without a reload: flows, lanes, and why a run waits."""

import pytest
from playwright.async_api import expect

from tests.e2e.flows import ASK, ORDERS
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]

LATER = {
    "start": "later",
    "nodes": {"later": {"kind": "timer", "params": {"delay_ms": 600_000}}},
    "edges": [],
}


@pytest.mark.proves("R5.10")
async def test_a_new_version_is_shown_at_once(viewer: Viewer, site: Site) -> None:
    site.publish("fresh", ASK)
    page = await viewer.open("flows/fresh")
    await expect(page.get_by_test_id("node")).to_have_count(3)
    listed = await viewer.open("flows")
    flow = listed.get_by_test_id("flow").filter(has_text="fresh")
    await expect(flow).to_contain_text("version 1")
    site.publish("fresh", ORDERS)
    await expect(page.get_by_test_id("node")).to_have_count(7)
    await expect(flow).to_contain_text("version 2")


@pytest.mark.proves("R5.10")
async def test_a_task_is_started_with_the_flow_version_for_which_the_form_was_opened(
    viewer: Viewer, site: Site
) -> None:
    site.publish("formed", ORDERS)
    page = await viewer.open("flows/formed")
    await page.get_by_role("button", name="Start a task").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("count").fill("7")
    site.publish("formed", ASK)
    await expect(dialog).to_contain_text("Version 2 was published meanwhile.")
    await expect(dialog.get_by_label("count")).to_have_value("7")
    await dialog.get_by_role("button", name="Start", exact=True).click()
    await expect(dialog).to_have_count(0)
    [task] = site.call("GET", "/api/tasks?flow=formed")["tasks"]
    assert (task["version"], task["params"]) == (1, {"count": 7})


async def test_a_lane_that_a_run_creates_is_shown_at_once(viewer: Viewer, site: Site) -> None:
    page = await viewer.open("lanes")
    await expect(page.get_by_role("region", name="Lane main")).to_be_visible()
    run_id = site.begun("ann", params={"url": "x"}, lane="made by its first use")
    lane = page.get_by_role("region", name="Lane made by its first use")
    await expect(lane).to_contain_text("1 of 1 running")
    await expect(lane.get_by_role("link", name="ann")).to_be_visible()
    site.send(run_id, "end")
    await expect(lane).to_contain_text("0 of 1 running")


async def test_a_run_that_waits_in_a_lane_is_shown_as_waiting(viewer: Viewer, site: Site) -> None:
    run_id = site.begun("ann", job="agent", params={"goal": "x"})
    page = await viewer.open("lanes")
    agents = page.get_by_role("region", name="Lane agents")
    waiting = agents.get_by_role("heading", name="Waiting, holds no place")
    await expect(agents.get_by_role("heading", name="Running")).to_be_visible()
    await expect(waiting).to_have_count(0)
    site.send(run_id, "May I?")
    await expect(waiting).to_be_visible()
    await expect(agents).to_contain_text("0 of")


async def test_the_displayed_waiting_reason_is_updated_after_changes_by_others(
    viewer: Viewer, site: Site
) -> None:
    site.save("bea")
    site.call("PATCH", "/api/lanes/main", {"max_concurrent": 1})
    first = site.begun("ann", params={"url": "x"})
    second = site.submit("bea")
    page = await viewer.open(f"runs/{second}")
    why = page.get_by_test_id("why")
    await expect(why).to_contain_text("1 of 1")
    board = await viewer.open()
    site.call("PATCH", "/api/lanes/main", {"paused": True})
    await expect(why).to_contain_text("paused")
    await expect(row(board, "bea").get_by_test_id("row-why")).to_contain_text("main is paused")
    site.call("PATCH", "/api/lanes/main", {"paused": False, "max_concurrent": 0})
    await expect(row(board, "bea").get_by_test_id("row-why")).to_contain_text("lets none through")
    site.call("PATCH", "/api/lanes/main", {"max_concurrent": 1})
    await expect(row(board, "bea").get_by_test_id("row-why")).to_have_count(0)
    site.send(first, "end")
    await expect(page.get_by_test_id("pill")).to_have_text("Running")
    await expect(why).to_have_count(0)


async def test_a_waiting_row_shows_its_reason(viewer: Viewer, site: Site) -> None:
    run_id = site.begun("ann", job="agent", params={"goal": "x"})
    page = await viewer.open()
    ann = row(page, "ann")
    await expect(ann.get_by_test_id("pill")).to_have_text("Running")
    site.send(run_id, "May I?")
    await expect(ann.get_by_test_id("row-why")).to_contain_text("It waits for an answer")
    await ann.get_by_role("link", name="see the inbox").click()
    await page.get_by_role("button", name="Approve").click()
    await viewer.go(page, "board")
    await expect(ann.get_by_test_id("row-why")).to_have_count(0)


@pytest.mark.proves("R5.11")
async def test_a_task_that_does_not_progress_shows_why(viewer: Viewer, site: Site) -> None:
    site.publish("some time", LATER)
    task_id = site.started("some time")
    page = await viewer.open(f"tasks/{task_id}")
    await expect(page.get_by_test_id("why")).to_contain_text("'later' is a timer")
    site.call("POST", f"/api/tasks/{task_id}/cancel", {"reason": ""})
    await expect(page.get_by_test_id("pill")).to_have_text("Cancelled")
    await expect(page.get_by_test_id("why")).to_have_count(0)
