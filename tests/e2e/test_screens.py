"""Every screen, light and dark, wide and narrow, is fit for everybody."""

from typing import Final, NamedTuple

import pytest
from playwright.async_api import Page, ViewportSize, expect

from tests.e2e.flows import ASK, ORDERS
from tests.e2e.site import ROOT, Site
from tests.e2e.viewer import NARROW, WIDE, Scheme, Viewer, overflow_px, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]

AXE: Final = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
IMAGES: Final = ROOT / "docs" / "images"


SCREENS: Final = (
    *("board", "form", "runs", "run", "inbox", "lanes", "workers"),
    *("flows", "flow", "editor", "tasks", "task", "start"),
)


class Day(NamedTuple):
    run: str
    task: str


def a_busy_day(site: Site) -> Day:
    """Rows and tasks in every state; a run and a task that are under way."""
    task = a_few_tasks(site)
    site.call("PATCH", "/api/lanes/agents", {"max_concurrent": 2})
    for key in ("ada", "brian", "clara", "dmitri", "edsger", "frances", "grace", "hedy"):
        site.save(key, url=f"https://example.org/{key}/feed")
    first = site.begun("ada")
    site.tell(first, {"file": "photos/128.jpg"})
    for line in ("page 3 of 12", "photos/126.jpg", "photos/127.jpg", "page 4 of 12"):
        site.tell(first, line)
    site.tell(first, {"log": "photos/97.jpg is gone", "level": "warning"}, "photos/128.jpg")
    figures = {"downloaded": 128, "skipped": 12, "filtered": 3, "page": 4}
    site.tell(first, {**figures, "bytes_per_s": 1_240_000})
    for key, end in (("clara", "end"), ("dmitri", {"fail": "the feed answers 403 Forbidden"})):
        run_id = site.begun(key)
        site.tell(run_id, {"downloaded": 311, "skipped": 40, "filtered": 9}, end)
        site.ended(run_id)
    second = site.begun("brian")
    site.tell(second, {"downloaded": 7, "skipped": 0, "filtered": 1, "page": 1})
    site.begun("edsger")
    for key in ("frances", "grace"):
        site.submit(key)
    asks = site.begun("tidy-2026", job="agent", params={"goal": "Tidy up the archive"})
    site.tell(asks, {"tool": "delete_files", "folder": "/srv/archive/2019", "count": 9})
    schema = {
        "type": "object",
        "properties": {
            "tone": {"enum": ["kind", "short"], "default": "kind"},
            "sign_as": {"type": "string", "default": "The team"},
        },
    }
    reply = site.begun("mail-118", job="agent", params={"goal": "Answer the mail"})
    site.tell(reply, {"title": "How shall it answer?", "from": "jo@example.org", "schema": schema})
    return Day(first, task)


def a_few_tasks(site: Site) -> str:
    """Of one flow; the one that has come furthest is given back."""
    told = {"url": "http://127.0.0.1:9", "services": ["label", "sum", "transform"]}
    site.call("POST", "/workers/register", {"id": "packer-1", **told})
    site.call("POST", "/workers/register", {"id": "packer-2", **told, "services": ["sum"]})
    site.publish("remind", ASK)
    site.publish("order to parcel", ORDERS)
    for key, params in (("order-1001", {"count": 2}), ("order-1002", {"count": 5_000})):
        task_id = site.started("order to parcel", key=key, params={"customer": "Ada", **params})
        kind = "event" if params["count"] < 100 else "approval"
        site.waiting(task_id, kind)
        if kind == "approval":
            site.call("POST", f"/api/tasks/{task_id}/approve", {"answer": True})
        else:
            site.call("POST", f"/api/tasks/{task_id}/signal", {"key": "paid", "value": 1})
    site.started("order to parcel", key="order-1003", params={"count": 300, "customer": "Bea"})
    last = site.started("order to parcel", key="order-1004", params={"count": 12, "each": 4})
    site.waiting(last, "event")
    return last


async def violations(page: Page) -> list[str]:
    """What axe finds, of the kinds that shut somebody out."""
    # As a reader of the page would be given it, past the content policy.
    session = await page.context.new_cdp_session(page)
    await session.send("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    found = await page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


async def show(page: Page, viewer: Viewer, site: Site, screen: str, day: Day) -> None:
    """Go to the screen, and wait until what it is about is there."""
    match screen:
        case "board":
            await viewer.go(page, "board")
            await expect(row(page, "ada").get_by_test_id("figures")).to_contain_text("128")
        case "form":
            await viewer.go(page, "board")
            await row(page, "hedy").get_by_role("button", name="Parameters of hedy").click()
            await expect(row(page, "hedy").get_by_label("Url")).to_be_visible()
        case "runs":
            await viewer.go(page, "runs")
            await expect(page.get_by_test_id("run").first).to_be_visible()
        case "run":
            await viewer.go(page, f"runs/{day.run}")
            await expect(page.get_by_role("log", name="Log")).to_contain_text("128.jpg")
        case "inbox":
            await viewer.go(page, "inbox")
            await expect(page.get_by_test_id("question")).to_have_count(2)
        case "lanes":
            await viewer.go(page, "lanes")
            await expect(page.get_by_test_id("lane").first).to_be_visible()
            await expect(page.get_by_test_id("depth").first).to_be_visible()
        case "workers":
            site.call("POST", "/workers/heartbeat", {"id": "packer-1", "load": 2})
            await viewer.go(page, "workers")
            await expect(page.get_by_text("Alive").first).to_be_visible()
        case "task":
            await viewer.go(page, f"tasks/{day.task}")
            await expect(page.get_by_test_id("node-run").first).to_be_visible()
            await page.get_by_test_id("node-run").nth(1).click()
            await expect(page.get_by_test_id("node-run-details")).to_be_visible()
        case "flows":
            await viewer.go(page, "flows")
            await expect(page.get_by_test_id("flow").first).to_be_visible()
            await expect(page.get_by_text("1 warning").first).to_be_visible()
        case _:
            await show_flow(page, viewer, screen)


async def show_flow(page: Page, viewer: Viewer, screen: str) -> None:
    address = "flows/order%20to%20parcel"
    match screen:
        case "flow":
            await viewer.go(page, address)
            await page.get_by_test_id("node").nth(1).click()
            await expect(page.get_by_test_id("node-panel")).to_be_visible()
        case "editor":
            await viewer.go(page, f"{address}?tab=definition")
            area = page.get_by_role("textbox", name="Definition")
            text = (await area.input_value()).replace('"approval"', '"magic"')
            await area.fill(text)
            await expect(page.get_by_test_id("fault")).to_have_count(1)
            await page.get_by_test_id("fault").click()
        case "tasks":
            await viewer.go(page, f"{address}?tab=tasks")
            await expect(page.get_by_test_id("task").first).to_be_visible()
        case _:
            assert screen == "start"
            await viewer.go(page, address)
            await page.get_by_role("button", name="Start a task").click()
            await expect(page.get_by_label("customer")).to_be_visible()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1440", "390"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_screen_is_fit_for_everybody(
    viewer: Viewer, site: Site, request: pytest.FixtureRequest, scheme: Scheme, size: ViewportSize
) -> None:
    day = a_busy_day(site)
    page = await viewer.open(scheme=scheme, size=size)
    for screen in SCREENS:
        await show(page, viewer, site, screen, day)
        assert await violations(page) == [], (screen, scheme, size)
        assert await overflow_px(page) == 0, (screen, scheme, size)
        if request.config.getoption("--write-screenshots"):
            await page.screenshot(path=IMAGES / f"{screen}-{scheme}-{size['width']}.png")


async def test_an_empty_board_and_a_dialog_are_fit_for_everybody(
    viewer: Viewer, site: Site
) -> None:
    page = await viewer.open()
    await expect(page.get_by_text("No rows yet")).to_be_visible()
    assert await violations(page) == []
    await page.get_by_role("button", name="Add the first row").click()
    await expect(page.get_by_role("dialog", name="Add a row")).to_be_visible()
    assert await violations(page) == []
