"""Everything can be done by the keyboard alone, and the focus stays where it was."""

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.flows import ASK
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


async def reached(page: Page, wanted: Locator, key: str = "Tab") -> None:
    """Press the key until the element has the focus."""
    await expect(wanted).to_be_visible()
    for _ in range(60):
        if await wanted.evaluate("element => element === document.activeElement"):
            return
        await page.keyboard.press(key)
    pytest.fail(f"{wanted} is not reached by the keyboard")


async def test_a_run_is_started_and_cancelled_without_losing_the_focus(
    viewer: Viewer, site: Site
) -> None:
    for key in ("ann", "bea"):
        site.save(key)
    page = await viewer.open()
    bea = row(page, "bea")
    await reached(page, bea.get_by_role("button", name="Start new"))
    await page.keyboard.press("Enter")
    await expect(bea.get_by_role("button", name="Cancel")).to_be_focused()
    await expect(bea.get_by_test_id("pill")).to_have_text("Running")
    await page.keyboard.press("Enter")
    await reached(page, page.get_by_role("menuitem", name="Cancel and keep them"), "ArrowDown")
    await page.keyboard.press("Enter")
    await expect(bea.get_by_test_id("pill")).to_have_text("Cancelled")
    await expect(bea.get_by_role("button", name="Start new")).to_be_focused()


@pytest.mark.proves("R1.12")
async def test_the_focus_returns_to_the_row_after_a_dialog(viewer: Viewer, site: Site) -> None:
    site.save("keys")
    first = site.begun("keys")
    site.send(first, {"file": "1.jpg"}, "end")
    site.ended(first)
    page = await viewer.open()
    keys = row(page, "keys")
    await reached(page, keys.get_by_role("button", name="Start new"))
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await reached(page, dialog.get_by_role("button", name="Replace"))
    await page.keyboard.press("Enter")
    await expect(dialog).to_have_count(0)
    await expect(keys.get_by_role("button", name="Cancel")).to_be_focused()


@pytest.mark.proves("R4.9")
async def test_questions_are_answered_one_after_the_other(viewer: Viewer, site: Site) -> None:
    site.call("PATCH", "/api/lanes/agents", {"max_concurrent": 3})
    for key in ("ann", "bea"):
        site.send(site.begun(key, job="agent", params={"goal": "x"}), f"May {key}?")
    page = await viewer.open("inbox")
    cards = [page.get_by_role("article", name=f"May {key}?") for key in ("ann", "bea")]
    for card in cards:
        await expect(card).to_be_visible()
    await reached(page, cards[0].get_by_role("button", name="Approve"))
    await page.keyboard.press("Enter")
    await expect(cards[0]).to_have_count(0)
    await expect(cards[1]).to_be_focused()
    await reached(page, cards[1].get_by_role("button", name="Reject"))
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Inbox")).to_be_focused()


@pytest.mark.proves("R5.11")
async def test_the_focus_stays_on_a_task_that_was_approved(viewer: Viewer, site: Site) -> None:
    site.publish("by keys", ASK)
    task_id = site.started("by keys", key="k1")
    site.waiting(task_id, "approval")
    page = await viewer.open(f"tasks/{task_id}")
    await reached(page, page.get_by_role("button", name="Approve"))
    await page.keyboard.press("Enter")
    signal = page.get_by_test_id("waiting").get_by_role("button", name="Signal")
    await expect(signal).to_be_visible()
    await expect(page.locator("main :focus")).to_have_count(1)
    await reached(page, signal)
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("pill")).to_have_text("Done")
    await expect(page.locator("main :focus")).to_have_count(1)


@pytest.mark.proves("R4.11")
async def test_a_message_is_composed_and_sent_as_steering_or_follow_up(
    viewer: Viewer, site: Site
) -> None:
    run_id = site.begun("ann", params={"url": "x"})
    site.until(run_id, lambda run: run["is_listening"])
    page = await viewer.open(f"runs/{run_id}")
    box = page.get_by_label("A message for the run")
    await box.fill("konnichiwa")
    # The Enter that confirms an input method's suggestion sends nothing.
    await box.evaluate(
        "box => box.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'Enter', isComposing: true, bubbles: true, cancelable: true}))"
    )
    await expect(box).to_have_value("konnichiwa")
    await box.press("Enter")
    await expect(page.get_by_role("log", name="Log")).to_contain_text("konnichiwa")
    await page.get_by_text("To the next run").click()
    await box.fill("and then this")
    await box.press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("It waits for the next run.")
    [next_run] = site.call("GET", "/api/runs?key=ann&status=queued")["runs"]
    assert (next_run["job"], next_run["mode"]) == ("mirror", "continue")
    site.send(run_id, "end")
    await expect(box).to_have_count(0)
    await page.get_by_role("link", name="the next run").click()
    await expect(page.get_by_role("log", name="Log")).to_contain_text("and then this")
