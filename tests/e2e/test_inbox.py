"""The inbox of questions to people, and the lanes."""

import re

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.flows import ASK
from tests.e2e.line import BadLine
from tests.e2e.site import Site
from tests.e2e.test_lists import with_limit
from tests.e2e.viewer import Viewer, everywhere

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.proves("R4.9")
@everywhere
async def test_a_question_is_answered_with_one_click_and_other_browsers_show_it(
    viewer: Viewer, site: Site, browser: Browser
) -> None:
    page = await viewer.open("inbox")
    await expect(page.get_by_text("Nobody waits for you")).to_be_visible()
    run_id = site.begun("ann", job="agent", params={"goal": "tidy up"})
    site.send(run_id, {"tool": "delete_files", "count": 9})
    other = Viewer(browser, site.address)
    elsewhere = await other.open("inbox")
    for one in (page, elsewhere):
        question = one.get_by_test_id("question")
        await expect(question).to_contain_text("delete_files")
        await expect(question).to_contain_text("9")
        await expect(one.get_by_label("1 waiting")).to_be_visible()
    await page.get_by_role("button", name="Approve").click()
    for one in (page, elsewhere):
        await expect(one.get_by_test_id("question")).to_have_count(0)
    assert site.ended(run_id)["result"] == {"approved": True}
    await other.leave()


@pytest.mark.proves("I20")
async def test_questions_beyond_the_first_page_are_in_the_inbox_too(
    viewer: Viewer, site: Site
) -> None:
    page = await viewer.open("inbox")
    await page.route("**/api/interrupts?*", lambda route: with_limit(route, 1))
    for key in ("ann", "bob", "cem"):
        run_id = site.begun(key, job="agent", params={"goal": "tidy up"})
        site.send(run_id, {"tool": f"delete_{key}"})
    for number, key in enumerate(("ann", "bob", "cem")):
        question = page.get_by_test_id("question").nth(number)
        await expect(question).to_contain_text(f"delete_{key}")


@pytest.mark.proves("R4.9")
async def test_a_question_with_a_schema_is_shown_as_a_form(viewer: Viewer, site: Site) -> None:
    run_id = site.begun("ann", job="agent", params={"goal": "reply"})
    schema = {
        "type": "object",
        "properties": {
            "tone": {"enum": ["kind", "short"], "default": "kind"},
            "copies": {"type": "integer"},
        },
    }
    site.send(run_id, {"title": "How shall it answer?", "schema": schema})
    page = await viewer.open(f"runs/{run_id}")
    question = page.get_by_test_id("question")
    await expect(question).to_contain_text("How shall it answer?")
    await question.get_by_label("Copies").fill("2")
    await question.get_by_role("button", name="Send").click()
    await expect(page.get_by_test_id("pill")).to_have_text("Done")
    assert site.run(run_id)["result"] == {"approved": True, "tone": "kind", "copies": 2}


@pytest.mark.proves("R4.9")
async def test_a_question_is_denied_with_one_click(viewer: Viewer, site: Site) -> None:
    run_id = site.begun("ann", job="agent", params={"goal": "x"})
    site.send(run_id, "May I?")
    page = await viewer.open("inbox")
    await page.get_by_role("button", name="Reject").click()
    assert site.ended(run_id)["result"] == {"approved": False}


@everywhere
async def test_a_lane_shows_its_runs_and_can_be_paused_and_limited(
    viewer: Viewer, site: Site
) -> None:
    page = await viewer.open("lanes")
    main = page.get_by_role("region", name="Lane main")
    await main.get_by_role("switch", name="Pause main").click()
    await expect(main).to_contain_text("paused: nothing starts")
    site.submit("ann", params={"url": "x"})
    await expect(main).to_contain_text("0 of 3 running, 1 queued")
    await expect(main.get_by_role("link", name="ann")).to_be_visible()
    await main.get_by_role("switch", name="Pause main").click()
    await expect(main).to_contain_text("1 of 3 running, 0 queued")
    await main.get_by_role("button", name="Raise the limit of main").click()
    await expect(main).to_contain_text("1 of 4 running")
    queued = main.get_by_label("How many may be queued in main")
    for typed, kept in (("7", 7), ("", None)):
        await queued.fill(typed)
        await page.keyboard.press("Enter")
        while site.call("GET", "/api/lanes/main")["max_queued"] != kept:
            await page.wait_for_timeout(20)


async def test_a_lane_shows_the_highest_queue_length_since_the_page_was_opened(
    viewer: Viewer, site: Site
) -> None:
    page = await viewer.open("lanes")
    main = page.get_by_label("Lane main", exact=True)
    site.call("PATCH", "/api/lanes/main", {"paused": True})
    for key in ("ann", "bea"):
        site.submit(key, params={"url": "x"})
    depth = main.get_by_test_id("depth")
    await expect(depth).to_contain_text("At most 2 queued")
    site.call("PATCH", "/api/lanes/main", {"paused": False})
    await expect(main).to_contain_text("0 queued")
    # Earlier values stay visible, also after visiting another screen.
    await viewer.go(page, "board")
    await viewer.go(page, "lanes")
    await expect(depth).to_contain_text("At most 2 queued")


@pytest.mark.proves("R5.11")
@everywhere
async def test_a_task_that_waits_for_approval_is_answered_in_the_inbox(
    viewer: Viewer, site: Site, browser: Browser
) -> None:
    site.publish("asks", ASK)
    task_id = site.started("asks", key="ann", params={"amount": 1_200})
    other = Viewer(browser, site.address)
    page, elsewhere = await viewer.open("inbox"), await other.open("inbox")
    for one in (page, elsewhere):
        card = one.get_by_role("article", name="asks: ann")
        for words in ("“ask”", "Amount1200", "asked just now"):
            await expect(card).to_contain_text(words)
    await page.get_by_role("button", name="Approve").click()
    for one in (page, elsewhere):
        await expect(one.get_by_text("Nobody waits for you")).to_be_visible()
    assert site.waiting(task_id, "event")["shared"]["ok"] is True
    await other.leave()


@pytest.mark.proves("R4.9")
async def test_the_second_answer_is_refused_and_the_first_one_stands(
    browser: Browser, site: Site
) -> None:
    run_id = site.begun("ann", job="agent", params={"goal": "x"})
    site.send(run_id, "May I?")
    async with BadLine(site.address) as line:
        viewer = Viewer(browser, line.address)
        page = await viewer.open("inbox")
        await expect(page.get_by_test_id("question")).to_contain_text("May I?")
        [asked] = site.call("GET", "/api/interrupts")["interrupts"]
        answer = {"call_id": asked["call_id"], "approved": False}
        line.swallows = True  # So that the page does not receive the event of the first answer.
        site.call("POST", f"/api/runs/{run_id}/resume", answer)
        async with page.expect_response(re.compile("/resume$")) as answered:
            await page.get_by_role("button", name="Approve").click()
        assert (await answered.value).status == 409
        await expect(page.get_by_test_id("question")).to_have_count(0)
        assert site.ended(run_id)["result"] == {"approved": False}
        await viewer.leave()
