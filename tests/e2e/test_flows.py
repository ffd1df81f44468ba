"""Flows in the browser: shown as graphs, written, published and started (R5.10)."""

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.drawing import node
from tests.e2e.flows import ASK, ORDERS
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, everywhere

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.proves("R5.10")
async def test_flows_are_listed_with_versions_and_warnings(viewer: Viewer, site: Site) -> None:
    site.publish("listed", ASK)
    site.publish("listed", ORDERS)
    page = await viewer.open("flows")
    flow = page.get_by_test_id("flow").filter(has_text="listed")
    await expect(flow).to_contain_text("version 2")
    await expect(flow).to_contain_text("1 warning")  # No worker offers `ship`.
    await flow.click()
    await expect(page.get_by_label("Warnings")).to_contain_text("nodes.ship")
    await expect(page.get_by_test_id("node")).to_have_count(7)
    # An earlier version can still be opened.
    await page.get_by_role("combobox", name="Version").click()
    await page.get_by_role("option", name="Version 1").click()
    await expect(page.get_by_test_id("node")).to_have_count(3)


@pytest.mark.proves("R5.10")
async def test_the_graph_of_a_flow_shows_where_its_tasks_are(viewer: Viewer, site: Site) -> None:
    site.publish("crowded", ASK)
    page = await viewer.open("flows/crowded")
    await expect(node(page, "ask")).to_have_attribute("data-state", "none")
    tasks = [site.started("crowded") for _ in range(2)]
    await expect(node(page, "ask")).to_have_attribute("data-state", "waiting")
    await expect(node(page, "ask")).to_contain_text("\N{MULTIPLICATION SIGN}2")
    for task_id in tasks:
        site.call("POST", f"/api/tasks/{task_id}/cancel", {})
    await expect(node(page, "ask")).to_have_attribute("data-state", "none")


@pytest.mark.proves("R5.10")
async def test_the_first_flow_can_be_created_on_the_page(browser: Browser, lone_site: Site) -> None:
    viewer = Viewer(browser, lone_site.address)
    page = await viewer.open("flows")
    await expect(page.get_by_text("No flows yet")).to_be_visible()
    await page.get_by_role("link", name="New flow").click()
    await page.get_by_label("Name").fill("first of all")
    await expect(page.get_by_test_id("verdict")).to_contain_text("It can be published.")
    await page.get_by_role("button", name="Publish").click()
    await expect(page.get_by_role("heading", name="first of all")).to_be_visible()
    await expect(page.get_by_test_id("node")).to_have_count(3)
    await page.get_by_role("tab", name="Tasks").click()
    await expect(page.get_by_text("No tasks yet")).to_be_visible()
    await viewer.leave()


@pytest.mark.proves("R5.10")
@everywhere
async def test_a_task_is_started_by_a_form_made_from_the_flow_inputs(
    viewer: Viewer, site: Site
) -> None:
    flow = f"begun-{viewer.scheme}"
    site.publish(flow, ORDERS)
    page = await viewer.open(f"flows/{flow}")
    await page.get_by_role("button", name="Start a task").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("count").fill("500")
    await dialog.get_by_label("customer").fill("Ann & Sons")
    await dialog.get_by_label("Further parameters").fill('{"each": 3}')
    await dialog.get_by_label("Key").fill("order-17")
    await dialog.get_by_role("button", name="Start").click()
    await expect(page.get_by_role("heading", name="order-17")).to_be_visible()
    [task] = site.call("GET", f"/api/tasks?flow={flow}")["tasks"]
    assert task["params"] == {"count": 500, "customer": "Ann & Sons", "each": 3}
    # Only one task of a key runs at a time (R1.5).
    await viewer.go(page, f"flows/{flow}")
    await page.get_by_role("button", name="Start a task").click()
    await dialog.get_by_label("Key").fill("order-17")
    await dialog.get_by_role("button", name="Start").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("already has an active run")
