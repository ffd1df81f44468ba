"""Names, log lines and results are always shown as text (S8)."""

import json
from typing import Final

import pytest
from playwright.async_api import Page, expect

from tests.e2e.hostile import hostile_names
from tests.e2e.site import Site
from tests.e2e.viewer import NARROW, Viewer, overflow_px, row

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


TEXTS: Final = ["<script>window.owned = 1</script>", "x" * 1_000_000, "\u202eevil"]


async def is_untouched(page: Page) -> bool:
    """Check that no foreign script ran and no foreign element exists."""
    owned = await page.evaluate("'owned' in window")
    strangers = await page.locator("script:not([src]), iframe, base, main img, main style").count()
    return not owned and strangers == 0


@pytest.mark.proves("S8")
async def test_two_hundred_hostile_names_are_shown_as_text(viewer: Viewer, site: Site) -> None:
    names = hostile_names()
    assert len(names) == 200
    for name in names:
        site.save(name, job="say", said=name)
    page = await viewer.open(size=NARROW)
    await expect(page.get_by_test_id("row").first).to_be_visible()
    seen: set[str] = set()
    for _ in range(200):
        shown = await page.get_by_test_id("row").evaluate_all(
            "rows => rows.map(row => row.getAttribute('aria-label'))"
        )
        seen |= set(shown)
        if seen >= set(names):
            break
        await page.mouse.wheel(0, 600)
        await page.wait_for_timeout(30)
    assert set(names) - seen == set()
    assert await overflow_px(page) == 0
    assert await is_untouched(page)


@pytest.mark.proves("S8")
async def test_two_hundred_hostile_names_are_shown_as_text_in_logs_and_results(
    viewer: Viewer, site: Site
) -> None:
    names = hostile_names()
    everything = site.submit("ann", job="recite", params={"said": names})
    site.ended(everything)
    page = await viewer.open(f"runs/{everything}", size=NARROW)
    log, seen = page.get_by_role("log", name="Log"), ""
    await expect(log).to_contain_text(names[-1].strip()[:20])
    await log.evaluate("box => box.scrollTo(0, 0)")
    for _ in range(400):
        seen += await log.evaluate(
            "box => [...box.querySelectorAll('span')].map(one => one.textContent).join('\\u0000')"
        )
        is_end = await log.evaluate(
            "box => { const top = box.scrollTop; box.scrollBy(0, 300);"
            " return box.scrollTop === top }"
        )
        if is_end:
            break
        await page.wait_for_timeout(20)
    assert [name for name in names if name not in seen] == []
    result = await page.get_by_label("Result").inner_text()
    assert [name for name in names if json.dumps(name, ensure_ascii=False) not in result] == []
    assert await overflow_px(page) == 0
    assert await is_untouched(page)


@pytest.mark.proves("S8")
async def test_hostile_names_are_shown_as_text_in_lists_lanes_and_the_inbox(
    viewer: Viewer, site: Site
) -> None:
    names = hostile_names()
    few = names[:: len(names) // 12]
    for name in few:
        asks = site.submit(name, job="agent", lane=name.strip()[:60], params={"goal": name})
        site.until(asks, lambda run: run["status"] == "running")
        site.send(asks, {"title": name, name: name})
        site.until(asks, lambda run: run["is_waiting"])
    page = await viewer.open("inbox", size=NARROW)
    await expect(page.get_by_test_id("question")).to_have_count(len(few))
    titles = await page.get_by_test_id("question").get_by_role("heading").all_inner_texts()
    assert sorted(" ".join(one.split()) for one in titles) == sorted(
        " ".join(name.split()) for name in few
    )
    for screen, found in (("runs", "run"), ("lanes", "lane")):
        await viewer.go(page, screen)
        await expect(page.get_by_test_id(found).filter(has_text=few[0]).first).to_be_visible()
        assert await overflow_px(page) == 0, screen
        assert await is_untouched(page)


@pytest.mark.proves("S8")
@pytest.mark.parametrize("text", TEXTS, ids=["markup", "long", "rtl"])
async def test_a_hostile_log_and_result_are_shown_as_text(
    viewer: Viewer, site: Site, text: str
) -> None:
    run_id = site.submit("ann", job="say", params={"said": text})
    site.ended(run_id)
    page = await viewer.open(f"runs/{run_id}", size=NARROW)
    await expect(page.get_by_role("log", name="Log")).to_contain_text(text[:100])
    await expect(page.get_by_label("Result")).to_contain_text(text[:100])
    # A truncated value can be downloaded whole.
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy the whole log").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert text in await page.evaluate("navigator.clipboard.readText()")
    assert await overflow_px(page) == 0
    assert await is_untouched(page)


@pytest.mark.proves("S8")
async def test_the_content_policy_refuses_everything_from_other_origins(
    viewer: Viewer, site: Site
) -> None:
    site.save("ann")
    page = await viewer.open()
    await expect(row(page, "ann")).to_be_visible()
    answer = await page.request.get(f"{site.address}/ui/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    ran = await page.evaluate(
        "() => { const script = document.createElement('script');"
        " script.textContent = 'window.owned = 1'; document.body.append(script);"
        " return 'owned' in window }"
    )
    assert ran is False
    viewer.faults.clear()  # The violation of the policy is expected.


@pytest.mark.proves("S8")
@pytest.mark.parametrize("text", ["<img src=x onerror=window.owned=1>", "\u202eevil", "__proto__"])
async def test_a_hostile_flow_is_shown_as_text_on_every_screen(
    viewer: Viewer, site: Site, text: str
) -> None:
    """Node keys, services and values are never markup and do not break the page."""
    nodes = {
        text: {"kind": "executor", "service": text, "prep": {"input_key": "$params.said"}},
        "last": {"kind": "approval", "params": {"approval_key": "$shared.ok"}},
    }
    edges = [{"from": text, "action": "error", "to": "last"}, {"from": text, "to": text}]
    # Nothing answers at the worker's address, so the failure follows its edge at once.
    flow = {"worker_wait_ms": 0, "start": text, "nodes": nodes, "edges": edges}
    site.publish(text, flow)
    site.call("POST", "/workers/register", {"id": text, "url": "http://x", "services": [text]})
    task_id = site.started(text, key=text, params={"said": text})
    site.waiting(task_id, "approval")
    page = await viewer.open("flows", size=NARROW)
    await page.get_by_test_id("flow").filter(has_text=text).click()
    await expect(page.get_by_test_id("node")).to_have_count(2)
    await page.get_by_test_id("node").first.click()
    await expect(page.get_by_test_id("node-panel")).to_contain_text("executor")
    await page.get_by_role("tab", name="Definition").click()
    await expect(page.get_by_test_id("verdict")).to_contain_text("It can be published")
    await page.get_by_role("tab", name="Tasks").click()
    await page.get_by_test_id("task").filter(has_text=text).click()
    await page.get_by_test_id("node-run").first.click()
    await expect(page.get_by_test_id("node-run-details").get_by_label("Input")).to_have_text(text)
    for screen in (f"tasks/{task_id}", "workers", f"runs/{task_id}"):
        await viewer.go(page, screen)
        await expect(page.get_by_text(text).first).to_be_visible()
        assert await overflow_px(page) == 0
        assert await is_untouched(page)
