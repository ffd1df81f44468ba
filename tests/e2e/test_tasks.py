"""A task in the browser: its path through the graph, its node runs, and its actions (R5.10)."""

import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.drawing import node, taken
from tests.e2e.flows import ASK, ORDERS
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, everywhere

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


async def expect_states(page: Page, **states: str) -> None:
    for key, state in states.items():
        await expect(node(page, key)).to_have_attribute("data-state", state)


@pytest.mark.proves("R5.11")
@everywhere
async def test_a_task_is_approved_and_signalled_and_its_path_is_highlighted(
    viewer: Viewer, site: Site, browser: Browser
) -> None:
    site.publish("asks", ASK)
    task_id = site.started("asks", key="ann")
    site.waiting(task_id, "approval")
    page = await viewer.open(f"tasks/{task_id}")
    other = Viewer(browser, site.address)
    elsewhere = await other.open(f"tasks/{task_id}")
    for one in (page, elsewhere):
        await expect_states(one, ask="waiting", hear="none", last="none")
    await page.get_by_role("button", name="Approve").click()
    for one in (page, elsewhere):
        await expect_states(one, ask="ok", hear="waiting", last="none")
    await expect(elsewhere.get_by_test_id("waiting")).to_contain_text("the signal “go”")
    await elsewhere.get_by_test_id("waiting").get_by_label("Value").fill('{"from": "afar"}')
    await elsewhere.get_by_test_id("waiting").get_by_role("button", name="Signal").click()
    for one in (page, elsewhere):
        await expect(one.get_by_test_id("pill")).to_have_text("Done")
        await expect_states(one, ask="ok", hear="ok", last="ok")
        await expect(one.get_by_test_id("node-run")).to_have_count(3)
        await expect(one.get_by_role("region", name="Shared state")).to_contain_text("afar")
        await expect(taken(one)).to_have_count(2)
    await other.leave()


@pytest.mark.proves("R5.11")
async def test_a_task_can_be_rejected_with_a_typed_answer(viewer: Viewer, site: Site) -> None:
    site.publish("asks", ASK)
    task_id = site.started("asks")
    site.waiting(task_id, "approval")
    page = await viewer.open(f"tasks/{task_id}")
    await page.get_by_label("Or another answer").fill("rejected")
    await page.get_by_role("button", name="Answer", exact=True).click()
    await expect(page.get_by_test_id("pill")).to_have_text("Done")
    await expect_states(page, ask="ok", hear="none", last="ok")


@pytest.mark.proves("I11")
async def test_a_task_is_cancelled_and_run_again_from_a_node(viewer: Viewer, site: Site) -> None:
    site.publish("asks", ASK)
    task_id = site.started("asks", key="bob")
    site.waiting(task_id, "approval")
    page = await viewer.open(f"tasks/{task_id}")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_test_id("pill")).to_have_text("Cancelled")
    await expect_states(page, ask="canceled")
    await node(page, "hear").click()
    await page.get_by_role("button", name="Run again from “hear”").click()
    await expect(page.get_by_test_id("waiting")).to_contain_text("the signal “go”")
    await expect_states(page, ask="none", hear="waiting")
    await expect(page.get_by_role("link", name="an earlier task")).to_be_visible()


@pytest.mark.proves("R5.10")
@everywhere
async def test_node_runs_are_shown_as_a_timeline_with_inputs_and_outputs(
    viewer: Viewer, site: Site
) -> None:
    site.publish("orders", ORDERS)
    task_id = site.started("orders", params={"count": 4, "each": 3, "customer": "Ann"})
    site.waiting(task_id, "event")
    page = await viewer.open(f"tasks/{task_id}")
    runs = page.get_by_test_id("node-run")
    await expect(runs).to_have_count(2)
    await runs.filter(has_text="price").click()
    details = page.get_by_test_id("node-run-details")
    await expect(details.get_by_label("Input of price")).to_contain_text("Ann")
    await expect(details.get_by_label("Output of price")).to_contain_text('"total": 12')
    # Live, while the page is open.
    site.call("POST", f"/api/tasks/{task_id}/signal", {"key": "paid", "value": True})
    await expect(runs.filter(has_text="pack")).to_have_count(2)
    await expect_states(page, pack="ok", paid="ok", sorry="ok")
    # Also the path through the subflow: all edges of this path, and no other.
    await expect(taken(page)).to_have_count(5)
    await node(page, "pack").press("Enter")  # Also if it is out of sight.
    await expect(runs).to_have_count(2)


@pytest.mark.proves("R5.10")
async def test_a_failed_node_is_shown_at_once(viewer: Viewer, site: Site) -> None:
    site.publish("orders", ORDERS)
    task_id = site.started("orders", params={"count": 50, "customer": "Ann"})
    site.waiting(task_id, "event")
    site.call("POST", f"/api/tasks/{task_id}/signal", {"key": "paid", "value": True})
    page = await viewer.open(f"tasks/{task_id}")
    # No worker offers `ship`: it is tried twice, and the flow follows its edge for errors.
    await expect(page.get_by_test_id("pill")).to_have_text("Done")
    await expect_states(page, ship="error", sorry="ok", ask="none")
    failed = page.locator('[data-testid="node-run"][data-state="error"]')
    await expect(failed).to_have_count(2)
    await failed.first.click()
    await expect(page.get_by_test_id("node-run-details")).to_contain_text("no worker")


@pytest.mark.proves("R5.10")
async def test_the_tasks_of_a_flow_are_listed_live(viewer: Viewer, site: Site) -> None:
    site.publish("many", ASK)
    first = site.started("many", key="carl")
    page = await viewer.open("flows/many?tab=tasks")
    tasks = page.get_by_test_id("task")
    await expect(tasks).to_have_count(1)
    await expect(tasks.first).to_contain_text("carl")
    site.started("many", key="dora")
    await expect(tasks).to_have_count(2)
    site.waiting(first, "approval")
    site.call("POST", f"/api/tasks/{first}/cancel", {})
    carl = tasks.filter(has_text="carl")
    await expect(carl.get_by_test_id("pill")).to_have_text("Cancelled")
    await carl.click()
    await expect(page.get_by_role("heading", name="carl")).to_be_visible()
    await page.get_by_role("link", name="Log and events").click()
    await page.get_by_role("tab", name="What happened").click()
    await expect(page.get_by_role("log")).to_contain_text("It was cancelled")
    await page.get_by_role("link", name="A task of a flow").click()
    await expect(page.get_by_test_id("graph")).to_be_visible()


async def test_an_unknown_task_is_reported(viewer: Viewer, site: Site) -> None:
    page = await viewer.open("tasks/0199c3f2-7c1e-7a55-9d0b-2f6f2f1f9a10")
    await expect(page.get_by_text("This task cannot be shown")).to_be_visible()
    await viewer.go(page, "flows/nobody-has-published-this")
    await expect(page.get_by_text("This flow cannot be shown")).to_be_visible()
