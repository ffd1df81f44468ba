"""Flows in the browser: seen as graphs, written, published and started (R5.10)."""

import json

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.e2e.flows import ASK, ORDERS
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, everywhere

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


def node(page: Page, key: str) -> Locator:
    return page.get_by_test_id("node").filter(has=page.get_by_text(key, exact=True))


async def written(page: Page) -> str:
    """The text in the editor."""
    return await page.get_by_role("textbox", name="Definition").input_value()


async def chosen(page: Page) -> str:
    """What is marked in it."""
    marked: str = await page.get_by_role("textbox", name="Definition").evaluate(
        "area => area.value.slice(area.selectionStart, area.selectionEnd)"
    )
    return marked


async def test_r5_10_flows_are_listed_with_versions_and_warnings(
    viewer: Viewer, site: Site
) -> None:
    site.publish("listed", ASK)
    site.publish("listed", ORDERS)
    page = await viewer.open("flows")
    flow = page.get_by_test_id("flow").filter(has_text="listed")
    await expect(flow).to_contain_text("version 2")
    await expect(flow).to_contain_text("1 warning")  # Nobody offers to ship.
    await flow.click()
    await expect(page.get_by_label("Warnings")).to_contain_text("nodes.ship")
    await expect(page.get_by_test_id("node")).to_have_count(7)
    # An earlier version is still there to be seen.
    await page.get_by_role("combobox", name="Version").click()
    await page.get_by_role("option", name="Version 1").click()
    await expect(page.get_by_test_id("node")).to_have_count(3)


async def test_r5_10_the_graph_is_drawn_in_layers_and_walked_by_keys(
    viewer: Viewer, site: Site
) -> None:
    site.publish("drawn", ORDERS)
    page = await viewer.open("flows/drawn")
    await expect(page.get_by_test_id("node")).to_have_count(7)
    lefts = {}
    for key in ORDERS["nodes"]:
        box = await node(page, key).bounding_box()
        assert box is not None
        lefts[key] = box["x"]
    # The longest way decides: behind everything that leads to it.
    way = ["size", "ask", "price", "paid", "pack", "ship", "sorry"]
    assert sorted(way, key=lambda key: lefts[key]) == way
    await node(page, "size").focus()
    await page.keyboard.press("ArrowRight")
    await expect(node(page, "ask")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("node-panel")).to_contain_text("approval_key")
    await node(page, "pack").click()
    # Of a subflow the graph within.
    await expect(page.get_by_label("Subflow pack").get_by_test_id("node")).to_have_count(2)


async def test_i15_a_fault_stands_beside_the_text_and_leads_to_its_line(
    viewer: Viewer, site: Site
) -> None:
    site.publish("edited", ORDERS)
    page = await viewer.open("flows/edited?tab=definition")
    area = page.get_by_role("textbox", name="Definition")
    await expect(page.get_by_test_id("verdict")).to_contain_text("with warnings")
    text = await written(page)
    shown, kept = json.loads(text), site.call("GET", "/api/flows/edited")["definition"]
    assert (shown["start"], shown["nodes"]) == (kept["start"], kept["nodes"])
    assert sorted(map(str, shown["edges"])) == sorted(
        str({name: edge[name] for name in ("from", "action", "to")}) for edge in kept["edges"]
    )
    bad = text.replace('"kind": "approval"', '"kind": "magic"').replace(
        '"to": "pack"', '"to": "nowhere"'
    )
    await area.fill(bad)
    await expect(page.get_by_test_id("verdict")).to_contain_text("cannot be published")
    publish = page.get_by_role("button", name="Publish a new version")
    await expect(publish).to_be_disabled()
    faults = page.get_by_test_id("fault")
    await expect(faults).to_have_count(2)
    line = bad[: bad.index('"kind": "magic"')].count("\n") + 1
    fault = faults.filter(has_text="nodes.ask.kind")
    await expect(fault).to_contain_text(f"line {line}")
    await fault.click()
    assert await chosen(page) == '"kind": "magic"'
    await faults.filter(has_text="edges[").click()
    assert '"to": "nowhere"' in await chosen(page)
    # What is not JSON at all is told at once, at its place.
    await area.fill(text.replace('"start": "size",', '"start": "size"'))
    await expect(faults).to_have_count(1)
    await expect(faults).to_contain_text("A comma is missing before this.")
    await faults.click()
    assert await chosen(page) == '"'


async def test_r5_1_a_new_version_is_published_unless_another_was_faster(
    viewer: Viewer, site: Site
) -> None:
    site.publish("moving", ASK)
    page = await viewer.open("flows/moving?tab=definition")
    area = page.get_by_role("textbox", name="Definition")
    text = await written(page)
    site.publish("moving", ORDERS)
    await area.fill(text.replace('"delay_ms": 1', '"delay_ms": 7'))
    await page.get_by_role("button", name="Publish a new version").click()
    await expect(page.get_by_role("alert")).to_contain_text("another version meanwhile")
    await page.reload()
    await area.fill(text.replace('"delay_ms": 1', '"delay_ms": 7'))
    await page.get_by_role("button", name="Publish a new version").click()
    await expect(page.get_by_test_id("node")).to_have_count(3)
    assert site.call("GET", "/api/flows/moving")["version"] == 3


async def test_r5_10_the_first_flow_is_written_on_the_page(
    browser: Browser, lone_site: Site
) -> None:
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


@everywhere
async def test_r5_10_a_task_is_started_by_a_form_of_what_the_flow_reads(
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
    # One task at a time works on a key (R1.5).
    await viewer.go(page, f"flows/{flow}")
    await page.get_by_role("button", name="Start a task").click()
    await dialog.get_by_label("Key").fill("order-17")
    await dialog.get_by_role("button", name="Start").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("already has an active run")
