"""A definition as text: checked while typed, each error at its position, published (R5.10)."""

import json

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.drawing import chosen, definition, write, written
from tests.e2e.flows import ASK, ORDERS
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


async def tab_to(page: Page, key: str, *, goal: Locator) -> None:
    """Press the key until the goal has the focus, at most 50 times."""
    focused = page.locator(":focus").and_(goal)
    for _ in range(50):
        if await focused.count():
            return
        await page.keyboard.press(key)
    raise AssertionError(f"{goal} is never reached by {key}")


@pytest.mark.proves("I15")
async def test_an_error_is_listed_beside_the_text_and_leads_to_its_line(
    viewer: Viewer, site: Site
) -> None:
    site.publish("edited", ORDERS)
    page = await viewer.open("flows/edited?tab=definition")
    await expect(page.get_by_test_id("verdict")).to_contain_text("with warnings")
    text = await written(page)
    shown, kept = json.loads(text), site.call("GET", "/api/flows/edited")["definition"]
    assert (shown["start"], shown["nodes"]) == (kept["start"], kept["nodes"])
    # In the order in which they are visited.
    assert [*shown["nodes"]] == ["size", "ask", "price", "paid", "pack", "ship", "sorry"]
    assert sorted(map(str, shown["edges"])) == sorted(
        str({name: edge[name] for name in ("from", "action", "to")}) for edge in kept["edges"]
    )
    bad = text.replace('"kind": "approval"', '"kind": "magic"').replace(
        '"to": "pack"', '"to": "nowhere"'
    )
    await write(page, bad)
    await expect(page.get_by_test_id("verdict")).to_contain_text("cannot be published")
    publish = page.get_by_role("button", name="Publish a new version")
    await expect(publish).to_be_disabled()
    issues = page.get_by_test_id("issue")
    await expect(issues).to_have_count(2)
    line = bad[: bad.index('"kind": "magic"')].count("\n") + 1
    issue = issues.filter(has_text="nodes.ask.kind")
    await expect(issue).to_contain_text(f"line {line}")
    await issue.click()
    assert await chosen(page) == '"kind": "magic"'
    await issues.filter(has_text="edges[").click()
    assert '"to": "nowhere"' in await chosen(page)
    # Text that is not JSON is reported at once, at its position.
    await write(page, text.replace('"start": "size",', '"start": "size"'))
    await expect(issues).to_have_count(1)
    await expect(issues).to_contain_text("A comma is missing before this.")
    await issues.click()
    assert await chosen(page) == '"'


@pytest.mark.proves("I15")
async def test_an_error_is_underlined_and_marked_beside_its_line(
    viewer: Viewer, site: Site
) -> None:
    site.publish("marked", ASK)
    page = await viewer.open("flows/marked?tab=definition")
    text = await written(page)
    await expect(page.locator(".cm-lintRange")).to_have_count(0)
    await write(page, text.replace('"approval"', '"magic"'))
    underlined = page.locator(".cm-lintRange-error")
    await expect(underlined).to_have_text('"kind": "magic"')
    await expect(definition(page)).to_have_attribute("aria-invalid", "true")
    mark = page.locator(".cm-lint-marker-error")
    await expect(mark).to_have_count(1)
    [beside, within] = [await mark.bounding_box(), await underlined.bounding_box()]
    assert beside is not None
    assert within is not None
    assert within["y"] <= beside["y"] + beside["height"] / 2 <= within["y"] + within["height"]
    await underlined.hover()
    said = await page.get_by_test_id("issue").inner_text()
    tooltip = page.locator(".cm-tooltip-lint")
    await expect(tooltip).to_be_visible()
    assert (await tooltip.inner_text()).strip() in said
    # No error is left.
    await page.get_by_role("button", name="Undo all").click()
    await expect(page.locator(".cm-lintRange")).to_have_count(0)
    await expect(definition(page)).to_have_attribute("aria-invalid", "false")
    assert await written(page) == text


@pytest.mark.proves("R5.10")
async def test_a_definition_can_be_edited_with_the_keyboard_only(
    viewer: Viewer, site: Site
) -> None:
    site.publish("typed", ASK)
    page = await viewer.open("flows/typed?tab=definition")
    await expect(page.get_by_test_id("verdict")).to_contain_text("It can be published.")
    await expect(definition(page)).to_be_visible()  # The editor is loaded apart from the page.
    await tab_to(page, "Tab", goal=definition(page))
    await page.keyboard.press("ControlOrMeta+f")
    await page.keyboard.type('"delay_ms": 1')
    await page.keyboard.press("Enter")
    await page.keyboard.press("Escape")
    await page.keyboard.press("ArrowRight")
    await page.keyboard.type("23")
    assert '"delay_ms": 123' in await written(page)
    for _ in "23":
        await page.keyboard.press("ControlOrMeta+z")
    assert '"delay_ms": 1\n' in await written(page)
    await page.keyboard.press("ControlOrMeta+y")
    await page.keyboard.press("ControlOrMeta+y")
    # Tab is not typed: it moves the focus, forward and back.
    publish = page.get_by_role("button", name="Publish a new version")
    await expect(publish).to_be_enabled()
    await tab_to(page, "Tab", goal=publish)
    await tab_to(page, "Shift+Tab", goal=definition(page))
    await tab_to(page, "Tab", goal=publish)
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("node")).to_have_count(3)
    published = site.call("GET", "/api/flows/typed")
    assert published["version"] == 2
    assert published["definition"]["nodes"]["last"]["params"]["delay_ms"] > 1


@pytest.mark.proves("S8")
async def test_the_editor_and_its_search_comply_with_the_content_policy(
    viewer: Viewer, site: Site
) -> None:
    """The viewer records every violation of the policy; the test opens every styled part."""
    site.publish("dressed", ASK)
    page = await viewer.open("flows/dressed?tab=definition", scheme="dark")
    await write(page, (await written(page)).replace('"approval"', '"magic"'))
    await expect(page.locator(".cm-lint-marker-error")).to_be_visible()
    await page.keyboard.press("ControlOrMeta+f")
    await expect(page.get_by_role("textbox", name="Find")).to_be_focused()
    # Its styles are applied, although none is written into the page.
    font = await definition(page).evaluate("text => getComputedStyle(text).whiteSpace")
    assert font.startswith("pre") or font == "break-spaces"
    assert await page.locator("style").count() == 0


@pytest.mark.proves("R5.1")
async def test_a_new_version_is_published_unless_another_was_published_first(
    viewer: Viewer, site: Site
) -> None:
    site.publish("moving", ASK)
    page = await viewer.open("flows/moving?tab=definition")
    text = await written(page)
    site.publish("moving", ORDERS)
    await write(page, text.replace('"delay_ms": 1', '"delay_ms": 7'))
    await page.get_by_role("button", name="Publish a new version").click()
    await expect(page.get_by_role("alert")).to_contain_text("another version meanwhile")
    await page.reload()
    await write(page, text.replace('"delay_ms": 1', '"delay_ms": 7'))
    await page.get_by_role("button", name="Publish a new version").click()
    await expect(page.get_by_test_id("node")).to_have_count(3)
    assert site.call("GET", "/api/flows/moving")["version"] == 3
