"""Helpers to use the drawing and the text of a flow as a person at a browser does."""

from typing import Any, Final

from playwright.async_api import Locator, Page

ROW_LENGTH: Final = 100


def node(page: Page, key: str) -> Locator:
    return page.get_by_test_id("node").filter(has=page.get_by_text(key, exact=True))


def taken(page: Page) -> Locator:
    """The highlighted edges."""
    return page.locator('[data-testid="edge"][data-taken="true"]')


async def zoom(page: Page) -> float:
    """Return the scale at which the first graph of the page is drawn."""
    layer = page.locator(".react-flow__viewport").first
    drawn: float = await layer.evaluate("layer => new DOMMatrix(layer.style.transform).a")
    return drawn


async def is_within(inner: Locator, outer: Locator) -> bool:
    """Return whether the whole element is visible inside the other one."""
    [one, other] = [await inner.bounding_box(), await outer.bounding_box()]
    assert one is not None
    assert other is not None
    return (
        one["x"] >= other["x"]
        and one["y"] >= other["y"]
        and one["x"] + one["width"] <= other["x"] + other["width"]
        and one["y"] + one["height"] <= other["y"] + other["height"]
    )


def definition(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Definition")


async def written(page: Page) -> str:
    """Return the whole text in the editor, as it is copied."""
    await definition(page).focus()
    await page.keyboard.press("ControlOrMeta+a")
    return await chosen(page)


async def chosen(page: Page) -> str:
    """Return the selection in the editor, as it is copied."""
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.keyboard.press("ControlOrMeta+c")
    copied: str = await page.evaluate("navigator.clipboard.readText()")
    return copied


async def write(page: Page, text: str) -> None:
    """Paste the text in place of the content of the editor."""
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.evaluate("text => navigator.clipboard.writeText(text)", text)
    await definition(page).focus()
    await page.keyboard.press("ControlOrMeta+a")
    await page.keyboard.press("ControlOrMeta+v")


def a_large_flow(node_count: int) -> dict[str, Any]:
    """Return a choice of rows, each a chain. Every tenth node also has an edge for errors."""
    rows = range((node_count - 1) // ROW_LENGTH + 1)
    cases = [{"action": f"row {row}", "expr": {"eq": ["$input", row]}} for row in rows]
    nodes: dict[str, Any] = {
        "start": {"kind": "choice", "prep": {"input_key": "$params.row"}, "choice_cases": cases}
    }
    edges = []
    for number in range(node_count - 1):
        row, column = divmod(number, ROW_LENGTH)
        before = (
            {"from": f"step {number - 1}"} if column else {"from": "start", "action": f"row {row}"}
        )
        nodes[f"step {number}"] = {"kind": "timer", "params": {"delay_ms": 1}}
        edges.append({**before, "to": f"step {number}"})
        if column % 10 == 0 and number >= ROW_LENGTH:
            across = f"step {number - ROW_LENGTH + 1}"
            edges.append({"from": f"step {number}", "action": "error", "to": across})
    return {"start": "start", "nodes": nodes, "edges": edges}
