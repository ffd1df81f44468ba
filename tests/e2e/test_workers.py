"""The workers of flows in the browser: their state, and their runs (R5.10)."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.flows import ORDERS
from tests.e2e.site import Site
from tests.e2e.test_tasks import expect_states
from tests.e2e.viewer import Viewer

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.proves("R5.10")
async def test_a_busy_worker_is_shown_and_its_node_succeeds(
    browser: Browser, lone_site: Site, tmp_path: Path
) -> None:
    site, gate = lone_site, tmp_path / "gate"
    viewer = Viewer(browser, site.address)
    page = await viewer.open("workers")
    await expect(page.get_by_text("No workers")).to_be_visible()
    worker_id = site.work()
    worker = page.get_by_label(f"Worker {worker_id}")
    for words in ("http://127.0.0.1:", "ship", "transform", "Alive", "waits for nothing"):
        await expect(worker).to_contain_text(words)
    site.publish("orders", ORDERS)
    params = {"count": 4, "each": 3, "gate": str(gate)}
    task_id = site.started("orders", key="order-1", params=params)
    site.waiting(task_id, "event")
    site.call("POST", f"/api/tasks/{task_id}/signal", {"key": "paid", "value": True})
    # As the worker reports itself, and the calls that this server waits for.
    await expect(worker).to_contain_text("1 call", timeout=30_000)
    await worker.get_by_role("link", name="order-1").click()
    await expect_states(page, ship="running")
    gate.touch()
    await expect(page.get_by_test_id("pill")).to_have_text("Done")
    await expect_states(page, ship="ok", sorry="none")
    await page.get_by_test_id("node-run").filter(has_text="ship").click()
    details = page.get_by_test_id("node-run-details")
    await expect(details).to_contain_text(worker_id)
    await expect(details.get_by_label("Output of ship")).to_contain_text("P-12")
    await viewer.go(page, "workers")
    await expect(worker).to_contain_text("waits for nothing")
    # It has sent no heartbeat for longer than allowed (R5.8).
    site.dismiss()
    await expect(worker).to_contain_text("Silent", timeout=30_000)
    await expect(worker).to_contain_text("gets no calls")
    await viewer.leave()


@pytest.mark.proves("R5.10")
async def test_each_instance_is_shown_with_the_runs_that_it_holds(
    viewer: Viewer, site: Site
) -> None:
    run_id = site.begun("ann", params={"url": "x"})
    page = await viewer.open("workers")
    instance = page.get_by_test_id("instance")
    await expect(instance).to_have_count(1)
    await instance.get_by_role("link", name="ann").click()
    await expect(page.get_by_text("Held by")).to_be_visible()
    site.send(run_id, "end")
    await viewer.go(page, "workers")
    await expect(instance).to_contain_text("holds no run")
