"""A flow as a graph: layout, panning, keyboard navigation, and large flows (R5.10)."""

from typing import Final

import pytest
from playwright.async_api import ViewportSize, expect

from tests.e2e.drawing import a_large_flow, is_within, node, zoom
from tests.e2e.flows import ORDERS
from tests.e2e.site import Site
from tests.e2e.viewer import NARROW, Viewer, overflow_px

LOW: Final = ViewportSize(width=390, height=500)

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.proves("R5.10")
async def test_the_graph_is_drawn_in_layers_and_navigated_by_keys(
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
    # The longest path decides: the node is behind all nodes that lead to it.
    way = ["size", "ask", "price", "paid", "pack", "ship", "sorry"]
    assert sorted(way, key=lambda key: lefts[key]) == way
    await node(page, "size").focus()
    await page.keyboard.press("ArrowRight")
    await expect(node(page, "ask")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("node-panel")).to_contain_text("approval_key")
    await node(page, "pack").click()
    # The graph of a subflow is drawn inside its node.
    await expect(page.get_by_label("Subflow pack").get_by_test_id("node")).to_have_count(2)


@pytest.mark.proves("R5.10")
async def test_nodes_and_labels_do_not_overlap(viewer: Viewer, site: Site) -> None:
    """This also holds for edges that lead back, and for edges from a node to itself."""
    edges = [
        *ORDERS["edges"],
        {"from": "sorry", "to": "size"},
        {"from": "paid", "action": "error", "to": "paid"},
        {"from": "ship", "to": ""},
    ]
    site.publish("tangled", {**ORDERS, "edges": edges})
    page = await viewer.open("flows/tangled")
    await expect(page.get_by_test_id("node")).to_have_count(7)
    await expect(page.get_by_test_id("edge")).to_have_count(len(edges))
    drawn = await page.locator('[data-testid="node"], [data-testid="edge"] text').evaluate_all(
        "all => all.map(one => [one.textContent, one.getBoundingClientRect().toJSON()])"
    )
    assert len(drawn) > 7
    for number, (name, one) in enumerate(drawn):
        for other_name, other in drawn[:number]:
            is_apart = (
                one["right"] <= other["left"]
                or other["right"] <= one["left"]
                or one["bottom"] <= other["top"]
                or other["bottom"] <= one["top"]
            )
            assert is_apart, (name, other_name)


@pytest.mark.proves("R5.10")
async def test_a_graph_can_be_zoomed_and_fitted(viewer: Viewer, site: Site) -> None:
    site.publish("moved", ORDERS)
    page = await viewer.open("flows/moved", size=NARROW)
    await expect(node(page, "size")).to_be_visible()
    graph, begun = page.get_by_test_id("graph"), await zoom(page)
    assert not await is_within(node(page, "sorry"), graph)
    await page.get_by_role("button", name="Larger").click()
    larger = await zoom(page)
    assert larger > begun
    for _ in range(3):
        await page.get_by_role("button", name="Smaller").click()
    assert await zoom(page) < begun
    await page.get_by_role("button", name="Show all").click()
    for key in ORDERS["nodes"]:
        assert await is_within(node(page, key), graph), key


@pytest.mark.proves("R5.10")
async def test_a_graph_is_dragged_and_the_wheel_scrolls_the_page(
    viewer: Viewer, site: Site
) -> None:
    site.publish("dragged", ORDERS)
    page = await viewer.open("flows/dragged", size=LOW)
    first = node(page, "size")
    await first.click()
    await expect(page.get_by_test_id("node-panel")).to_be_visible()
    box = await page.get_by_test_id("graph").bounding_box()
    before = await first.bounding_box()
    assert box is not None
    assert before is not None
    await page.mouse.move(box["x"] + 200, box["y"] + 10)
    await page.mouse.down()
    await page.mouse.move(box["x"] + 120, box["y"] + 10, steps=4)
    await page.mouse.up()
    after = await first.bounding_box()
    assert after is not None
    assert round(before["x"] - after["x"]) == 80
    size = await zoom(page)
    await page.mouse.wheel(0, 2_000)
    await expect(page.get_by_role("heading", name="dragged")).not_to_be_in_viewport()
    assert await zoom(page) == size


@pytest.mark.proves("R5.10")
async def test_a_flow_of_two_thousand_nodes_can_be_opened_and_navigated(
    viewer: Viewer, site: Site
) -> None:
    site.publish("large", a_large_flow(2_000))
    page = await viewer.open("flows/large")
    await expect(node(page, "start")).to_be_visible()
    # Only visible nodes are in the page.
    assert await page.get_by_test_id("node").count() < 300
    await expect(page.get_by_role("img", name="Overview")).to_be_visible()
    await node(page, "start").click()
    await expect(page.get_by_test_id("node-panel")).to_contain_text("choice_cases")
    # Keys move to nodes out of sight; the focused node is scrolled into view.
    for _ in range(20):
        await page.keyboard.press("ArrowRight")
    focused = page.locator("[data-testid=node]:focus")
    await expect(focused).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("node-panel")).to_contain_text("delay_ms")
    assert await is_within(focused, page.get_by_test_id("graph"))
    assert await node(page, "start").count() == 0
    await page.get_by_role("button", name="Show all").click()
    await page.get_by_role("button", name="Larger").click()
    assert await overflow_px(page) == 0


@pytest.mark.proves("R5.10")
async def test_the_board_does_not_load_the_drawing_module(viewer: Viewer, site: Site) -> None:
    page = await viewer.open()
    await expect(page.get_by_text("No rows yet")).to_be_visible()
    names = "performance.getEntriesByType('resource').map(one => one.name).join()"
    assert "/Canvas-" not in await page.evaluate(names)
    site.publish("late", ORDERS)
    await viewer.go(page, "flows/late")
    await expect(node(page, "size")).to_be_visible()
    assert "/Canvas-" in await page.evaluate(names)
