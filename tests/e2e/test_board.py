"""The board in a real browser: what a row shows, which actions it allows, and why not."""

import json
from datetime import datetime
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.line import BadLine
from tests.e2e.site import Site
from tests.e2e.viewer import Viewer, everywhere, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.proves("R1.6")
@everywhere
async def test_a_row_changes_from_idle_to_running_to_done(viewer: Viewer, site: Site) -> None:
    key = f"lena-{viewer.scheme}"
    site.save(key)
    page = await viewer.open()
    lena = row(page, key)
    await expect(lena.get_by_test_id("pill")).to_have_text("Idle")
    await lena.get_by_role("button", name="Start new").click()
    await expect(lena.get_by_test_id("pill")).to_have_text("Running")
    [run] = site.call("GET", f"/api/runs?key={key}")["runs"]
    site.send(run["id"], {"downloaded": 3, "skipped": 1}, "end")
    await expect(lena.get_by_test_id("pill")).to_have_text("Done")
    # The progress of the last run stays (R1.12).
    await expect(lena.get_by_test_id("figures")).to_contain_text("downloaded3")


@pytest.mark.proves("R1.6")
async def test_a_failed_row_shows_the_error(viewer: Viewer, site: Site) -> None:
    site.save("ann")
    page = await viewer.open()
    site.send(site.begun("ann"), {"fail": "the feed is gone"})
    await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Failed")
    await expect(row(page, "ann").get_by_test_id("reason")).to_contain_text("the feed is gone")


@pytest.mark.proves("R1.6")
async def test_cancelling_a_queued_run_makes_the_row_idle_again(viewer: Viewer, site: Site) -> None:
    site.call("PATCH", "/api/lanes/main", {"max_concurrent": 0})
    site.save("ann")
    page = await viewer.open()
    ann = row(page, "ann")
    await ann.get_by_role("button", name="Start new").click()
    await expect(ann.get_by_test_id("pill")).to_have_text("Queued")
    await ann.get_by_role("button", name="Cancel").click()
    await expect(ann.get_by_test_id("pill")).to_have_text("Idle")
    await expect(ann.get_by_role("button", name="Start new")).to_be_enabled()


@pytest.mark.proves("R1.7")
@everywhere
async def test_a_row_is_locked_while_its_run_is_active(viewer: Viewer, site: Site) -> None:
    site.save("ann")
    page = await viewer.open()
    ann = row(page, "ann")
    await ann.get_by_role("button", name="Parameters of ann").click()
    url = ann.get_by_label("Url")
    await expect(url).to_be_enabled()
    run_id = site.begun("ann")
    await expect(url).to_be_disabled()
    for name in ("Start new", "Continue", "Save"):
        await expect(ann.get_by_role("button", name=name)).to_have_count(0)
    await ann.get_by_role("button", name="More for ann").click()
    for name in ("Copy parameters", "Paste parameters", "Remove the row"):
        await expect(page.get_by_role("menuitem", name=name)).to_be_disabled()
    await page.keyboard.press("Escape")
    await expect(ann.get_by_role("button", name="Cancel")).to_be_enabled()
    site.send(run_id, "end")
    await expect(url).to_be_enabled()


@pytest.mark.proves("R1.2", "R1.12")
@everywhere
async def test_the_lane_limit_can_be_changed_live_and_queued_runs_show_positions(
    viewer: Viewer, site: Site
) -> None:
    for key in ("ann", "bea", "carl"):
        site.save(key)
    site.call("PATCH", "/api/lanes/main", {"max_concurrent": 1})
    page = await viewer.open()
    site.begun("ann")
    site.submit("bea")
    site.submit("carl")
    await expect(row(page, "bea").get_by_test_id("when")).to_have_text("position 1")
    await expect(row(page, "carl").get_by_test_id("when")).to_have_text("position 2")
    await page.get_by_role("button", name="Raise the limit of main").click()
    await expect(row(page, "bea").get_by_test_id("pill")).to_have_text("Running")
    await expect(row(page, "carl").get_by_test_id("when")).to_have_text("position 1")
    limit = page.get_by_role("textbox", name="The limit of main")
    await expect(limit).to_have_value("2")
    # Lowering the limit interrupts no run (R1.4).
    await page.get_by_role("button", name="Lower the limit of main").click()
    await expect(limit).to_have_value("1")
    await expect(row(page, "bea").get_by_test_id("pill")).to_have_text("Running")
    # Any number can be typed at once.
    await limit.fill("64")
    await page.keyboard.press("Enter")
    await expect(row(page, "carl").get_by_test_id("pill")).to_have_text("Running")
    assert site.call("GET", "/api/lanes/main")["max_concurrent"] == 64


@pytest.mark.proves("R1.12")
@everywhere
async def test_a_missing_parameter_is_reported_on_the_row_and_at_its_field(
    viewer: Viewer, site: Site
) -> None:
    key = f"mona-{viewer.scheme}"
    site.save(key)
    page = await viewer.open()
    mona = row(page, key)
    await mona.get_by_role("button", name=f"Parameters of {key}").click()
    await mona.get_by_label("Url").fill("")
    await mona.get_by_role("button", name="Start new").click()
    await expect(mona.get_by_test_id("reason")).to_contain_text("url")
    await expect(mona.get_by_label("Url")).to_have_attribute("aria-invalid", "true")
    await expect(mona.get_by_test_id("pill")).to_have_text("Idle")
    await mona.get_by_label("Url").fill("https://example.org/other")
    await mona.get_by_role("button", name="Start new").click()
    await expect(mona.get_by_test_id("pill")).to_have_text("Running")
    [run] = site.call("GET", f"/api/runs?key={key}&status=running")["runs"]
    assert run["params"]["url"] == "https://example.org/other"


@pytest.mark.proves("R1.12")
@everywhere
async def test_pasting_parameters_overwrites_all_of_them_but_not_the_key(
    viewer: Viewer, site: Site
) -> None:
    site.save("ann", kinds=["gif"], page_max=7)
    site.save("bea", quality="small")
    page = await viewer.open()
    await row(page, "ann").get_by_role("button", name="More for ann").click()
    await page.get_by_role("menuitem", name="Copy parameters").click()
    await row(page, "bea").get_by_role("button", name="More for bea").click()
    await page.get_by_role("menuitem", name="Paste parameters").click()
    await expect(row(page, "bea")).to_contain_text("example.org/ann")
    ann, bea = site.call("GET", "/api/keys")["keys"]
    assert (bea["key"], bea["job"], bea["params"]) == ("bea", "mirror", ann["params"])


@pytest.mark.proves("R1.8")
@pytest.mark.parametrize(("choice", "is_kept"), [("keep", True), ("delete", False)])
async def test_the_cancel_dialog_offers_to_keep_or_delete_the_files(
    viewer: Viewer, site: Site, choice: str, is_kept: bool
) -> None:
    key = f"ann-{choice}"
    site.save(key)
    page = await viewer.open()
    run_id = site.begun(key)
    site.send(run_id, {"file": "1.jpg"}, {"downloaded": 1})
    await expect(row(page, key).get_by_test_id("figures")).to_contain_text("downloaded1")
    await row(page, key).get_by_role("button", name="Cancel").click()
    await page.get_by_role("menuitem", name=f"Cancel and {choice} them").click()
    await expect(row(page, key).get_by_test_id("pill")).to_have_text("Cancelled")
    assert site.ended(run_id)["cancel"]["files"] == choice
    assert site.has_file("1.jpg", of=key) is is_kept


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize(
    ("choice", "existing"),
    [("Replace", "replace"), ("Pack into an archive", "archive"), ("Delete", "delete")],
)
async def test_page_asks_what_to_do_with_existing_output_before_a_start(
    viewer: Viewer, site: Site, choice: str, existing: str
) -> None:
    key = f"ann-{existing}"
    site.save(key)
    run_id = site.begun(key)
    site.send(run_id, {"file": "1.jpg"}, "end")
    site.ended(run_id)
    page = await viewer.open()
    await row(page, key).get_by_role("button", name="Start new").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("1.jpg")
    await dialog.get_by_role("button", name=choice).click()
    await expect(dialog).to_have_count(0)
    await expect(row(page, key).get_by_test_id("pill")).to_have_text("Running")
    [run] = site.call("GET", f"/api/runs?key={key}&status=running")["runs"]
    site.send(run["id"], {"downloaded": 1})  # Its job has started, so the output is prepared.
    await expect(row(page, key).get_by_test_id("figures")).to_contain_text("downloaded1")
    assert site.has_file("1.jpg", of=key) is (existing == "replace")


@pytest.mark.proves("R1.1")
async def test_continue_creates_a_run_that_resumes_the_last_one(viewer: Viewer, site: Site) -> None:
    site.save("ann")
    first = site.begun("ann")
    site.send(first, "end")
    site.ended(first)
    page = await viewer.open()
    await row(page, "ann").get_by_role("button", name="Continue").click()
    await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")
    [run] = site.call("GET", "/api/runs?key=ann&status=running")["runs"]
    assert (run["mode"], run["continued_from"]) == ("continue", first)


@everywhere
async def test_a_row_is_added_with_a_form_made_from_the_schema(viewer: Viewer, site: Site) -> None:
    site.save("zoe")
    page = await viewer.open()
    await page.get_by_role("button", name="Add").click()
    dialog = page.get_by_role("dialog", name="Add a row")
    await dialog.get_by_label("Key").fill("ann")
    await dialog.get_by_label("Job").click()
    await page.get_by_role("option", name="mirror").click()
    await dialog.get_by_label("Url").fill("https://example.org/ann")
    await dialog.get_by_label("Page max").fill("9")
    await dialog.get_by_label("With stories").check()
    await dialog.get_by_role("button", name="Add", exact=True).click()
    await expect(row(page, "ann")).to_be_visible()
    saved = {one["key"]: one for one in site.call("GET", "/api/keys")["keys"]}["ann"]
    expected = {
        "url": "https://example.org/ann",
        "kinds": ["jpg", "mp4"],
        "quality": "original",
        "page_max": 9,
        "with_stories": True,
        "since": None,
    }
    assert saved["params"] == expected, json.dumps(saved)


async def test_a_run_can_be_started_with_the_keyboard_only(viewer: Viewer, site: Site) -> None:
    site.save("ann")
    page = await viewer.open()
    start = row(page, "ann").get_by_role("button", name="Start new")
    await expect(start).to_be_visible()
    for _ in range(40):
        await page.keyboard.press("Tab")
        if await start.evaluate("element => element === document.activeElement"):
            break
    await page.keyboard.press("Enter")
    await expect(row(page, "ann").get_by_test_id("pill")).to_have_text("Running")


@pytest.mark.proves("R1.5")
@everywhere
async def test_start_on_a_busy_key_is_refused_and_shown_on_the_row(
    browser: Browser, viewer: Viewer, site: Site
) -> None:
    site.save("ann")
    async with BadLine(site.address) as line:
        late = Viewer(browser, line.address, scheme=viewer.scheme, size=viewer.size)
        page = await late.open()
        start = row(page, "ann").get_by_role("button", name="Start new")
        await expect(start).to_be_enabled()
        line.swallows = True  # So that the page does not receive the event of the other start.
        site.begun("ann")
        await start.click()
        reason = row(page, "ann").get_by_test_id("reason")
        await expect(reason).to_contain_text("already has an active run")
        await expect(reason).to_have_attribute("role", "alert")
        await late.leave()


@pytest.mark.proves("R1.12")
async def test_a_secret_is_only_shown_as_set_and_is_neither_copied_nor_lost(
    viewer: Viewer, site: Site
) -> None:
    site.save("ann", cookie="ann-is-here", page_max=7)
    site.save("bea", cookie="bea-is-here-too")
    page = await viewer.open()
    for key in ("ann", "bea"):
        await row(page, key).get_by_role("button", name=f"Parameters of {key}").click()
        field = row(page, key).get_by_label("Cookie", exact=True)
        await expect(field).to_have_value("")
        await expect(field).to_have_attribute("placeholder", "set")
    await row(page, "ann").get_by_role("button", name="More for ann").click()
    await page.get_by_role("menuitem", name="Copy parameters").click()
    await row(page, "bea").get_by_role("button", name="More for bea").click()
    await page.get_by_role("menuitem", name="Paste parameters").click()
    await expect(row(page, "bea")).to_contain_text("example.org/ann")
    assert "is-here" not in await page.content()
    # Bea's own secret is still stored, and the job receives it.
    await row(page, "bea").get_by_role("button", name="Start new").click()
    await expect(row(page, "bea").get_by_test_id("pill")).to_have_text("Running")
    [run] = site.call("GET", "/api/runs?key=bea&status=running")["runs"]
    assert (run["params"]["page_max"], run["params"]["cookie"]) == (7, {"secret": "set"})
    site.send(run["id"], "cookie")
    await viewer.go(page, f"runs/{run['id']}")
    length = len("bea-is-here-too")
    await expect(page.get_by_role("log", name="Log")).to_contain_text(f"{length} characters")
    await expect(page.get_by_label("Parameters")).to_contain_text("Cookieset")


@pytest.mark.proves("R1.8")
async def test_a_run_is_shown_as_cancelling_until_it_has_ended(
    viewer: Viewer, site: Site, tmp_path: Path
) -> None:
    site.save("ann")
    page = await viewer.open()
    ann, gate = row(page, "ann"), tmp_path / "gate"
    run_id = site.begun("ann")
    site.send(run_id, {"stay": str(gate)})
    await expect(ann.get_by_test_id("figures")).to_contain_text("staying")
    await ann.get_by_role("button", name="Cancel").click()
    await page.get_by_role("menuitem", name="Cancel and keep them").click()
    await expect(ann.get_by_test_id("pill")).to_have_text("Running (cancelling…)")
    await expect(ann.get_by_role("button", name="Cancelling…")).to_be_disabled()
    gate.touch()
    await expect(ann.get_by_test_id("pill")).to_have_text("Cancelled")


@pytest.mark.proves("R1.3")
async def test_queued_runs_start_in_order_and_run_time_excludes_the_wait(
    viewer: Viewer, site: Site
) -> None:
    for key in ("ann", "bea", "carl"):
        site.save(key)
    site.call("PATCH", "/api/lanes/main", {"max_concurrent": 1})
    page = await viewer.open()
    first = site.begun("ann")
    second = site.submit("bea")
    site.send(first, "end")
    site.ended(first)
    # A slot is free only for a moment. The run that was queued first gets it, not the new one.
    await row(page, "carl").get_by_role("button", name="Start new").click()
    await expect(row(page, "bea").get_by_test_id("pill")).to_have_text("Running")
    await expect(row(page, "carl").get_by_test_id("pill")).to_have_text("Queued")
    await expect(row(page, "carl").get_by_test_id("when")).to_have_text("position 1")
    [third] = site.call("GET", "/api/runs?key=carl&status=queued")["runs"]
    await page.wait_for_timeout(1_000)  # It waits long enough not to be rounded to zero.
    site.send(second, "end")
    await expect(row(page, "carl").get_by_test_id("pill")).to_have_text("Running")
    site.send(third["id"], "end")
    ended = site.ended(third["id"])
    queued, started, end = (
        datetime.fromisoformat(ended[name]).timestamp()
        for name in ("queued_at", "started_at", "ended_at")
    )
    assert f"{end - started:.1f}" != f"{end - queued:.1f}"
    words = f"took {end - started:.1f} s"
    await expect(row(page, "carl").get_by_test_id("when")).to_contain_text(words)


async def test_a_run_cannot_be_started_with_incomplete_json(viewer: Viewer, site: Site) -> None:
    site.save("jason", job="say", said=[1])
    page = await viewer.open()
    jason = row(page, "jason")
    await jason.get_by_role("button", name="Parameters of jason").click()
    await jason.get_by_label("Said").fill("[1, 2")
    await jason.get_by_role("button", name="Start new").click()
    await expect(jason.get_by_test_id("reason")).to_contain_text("Said is not JSON yet")
    assert site.call("GET", "/api/runs?key=jason")["runs"] == []
    await jason.get_by_label("Said").fill("[1, 2]")
    await jason.get_by_role("button", name="Start new").click()
    await expect(jason.get_by_test_id("pill")).to_have_text("Done")
    [run] = site.call("GET", "/api/runs?key=jason")["runs"]
    assert run["result"] == [1, 2]


async def test_a_list_of_texts_accepts_items_with_spaces(viewer: Viewer, site: Site) -> None:
    site.save("ann", kinds=[])
    page = await viewer.open()
    ann = row(page, "ann")
    await ann.get_by_role("button", name="Parameters of ann").click()
    await ann.get_by_label("Kinds").press_sequentially("New York,")
    await ann.get_by_role("button", name="Save").click()
    await expect(ann.get_by_role("button", name="Save")).to_have_count(0)
    [saved] = site.call("GET", "/api/keys")["keys"]
    assert saved["params"]["kinds"] == ["New York"]
