"""Questions to people: forms from schemas, errors at their field, and concurrent answers."""

from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.flows import ASK
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]

COPIES = {
    "type": "object",
    "properties": {
        "copies": {"type": "integer"},
        "why": {"type": "string", "minLength": 5},
    },
    "required": ["copies", "why"],
    "additionalProperties": False,
}


def asked(site: Site, key: str, question: Any) -> str:
    run_id = site.begun(key, job="agent", params={"goal": "x"})
    site.send(run_id, question)
    return run_id


@pytest.mark.proves("R4.9")
async def test_a_question_is_answered_with_a_form_made_from_its_schema(
    viewer: Viewer, site: Site
) -> None:
    how = {"schema": COPIES, "default": {"copies": 1, "why": "nobody said"}, "timeout_s": 290}
    run_id = asked(site, "ann", {"ask": "How many?", **how})
    page = await viewer.open("inbox")
    question = page.get_by_test_id("question")
    await expect(question).to_contain_text("How many?")
    await expect(question).to_contain_text("Without an answer it goes on in 4 min with")
    await expect(question).to_contain_text("nobody said")
    # A plain denial would not match.
    await expect(question.get_by_role("button", name="Reject")).to_have_count(0)
    await question.get_by_label("Copies").fill("2")
    await question.get_by_label("Why").fill("so")
    await question.get_by_role("button", name="Send").click()
    await expect(question.get_by_label("Why")).to_have_attribute("aria-invalid", "true")
    await expect(question.get_by_label("Copies")).not_to_have_attribute("aria-invalid", "true")
    await question.get_by_label("Why").fill("because")
    await question.get_by_role("button", name="Send").click()
    assert site.ended(run_id)["result"] == {"copies": 2, "why": "because"}


@pytest.mark.proves("R4.9")
async def test_a_question_whose_schema_has_a_boolean_can_be_rejected(
    viewer: Viewer, site: Site
) -> None:
    schema = {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "note": {"type": "string"}},
        "required": ["approved"],
        "additionalProperties": False,
    }
    run_id = asked(site, "ann", {"ask": {"title": "Ship it?"}, "schema": schema})
    page = await viewer.open("inbox")
    question = page.get_by_test_id("question")
    await expect(question).to_contain_text("No answer counts as a no in 4 min.")
    await question.get_by_label("Note").fill("not today")
    await question.get_by_role("button", name="Reject").click()
    assert site.ended(run_id)["result"] == {"approved": False, "note": "not today"}


@pytest.mark.proves("R4.9")
async def test_an_answer_by_another_person_is_shown(
    viewer: Viewer, site: Site, browser: Browser
) -> None:
    run_id = asked(site, "ann", "May I?")
    page = await viewer.open("inbox")
    other = Viewer(browser, site.address)
    elsewhere = await other.open("inbox")
    for one in (page, elsewhere):
        await expect(one.get_by_test_id("question")).to_have_count(1)
    await elsewhere.get_by_role("button", name="Approve").click()
    await expect(page.get_by_test_id("gone")).to_contain_text("“May I?” is not asked any more")
    await expect(page.get_by_text("Nobody waits for you")).to_be_visible()
    # The person who has answered sees no notice.
    await expect(elsewhere.get_by_text("Nobody waits for you")).to_be_visible()
    await expect(elsewhere.get_by_test_id("gone")).to_have_count(0)
    await page.get_by_role("button", name="Dismiss").click()
    await expect(page.get_by_test_id("gone")).to_have_count(0)
    assert site.ended(run_id)["result"] == {"approved": True}
    await other.leave()


@pytest.mark.proves("R5.11")
async def test_the_inbox_counts_approvals_too(viewer: Viewer, site: Site) -> None:
    site.publish("counted", ASK)
    page = await viewer.open("board")
    task_id = site.started("counted", key="c1")
    asked(site, "ann", "May I?")
    await expect(page.get_by_label("2 waiting")).to_be_visible()
    site.call("POST", f"/api/tasks/{task_id}/cancel", {"reason": ""})
    await expect(page.get_by_label("1 waiting")).to_be_visible()


async def test_an_unreadable_inbox_is_not_shown_as_empty(viewer: Viewer, site: Site) -> None:
    viewer.refusals[400] = "/api/tasks"
    page = await viewer.open("inbox")
    await expect(page.get_by_text("Nobody waits for you")).to_be_visible()
    await page.route("**/api/tasks?*", lambda route: route.fulfill(status=400, json={}))
    await page.reload()
    await expect(page.get_by_text("The inbox cannot be read")).to_be_visible()
    await expect(page.get_by_text("Nobody waits for you")).to_have_count(0)
