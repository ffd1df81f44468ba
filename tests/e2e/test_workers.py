"""The workers of flows in the browser: how they are, and what they hold (R5.10)."""

import socket

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.site import Site
from tests.e2e.viewer import Viewer

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.asyncio(loop_scope="session")]


async def test_r5_10_a_worker_shows_its_state_and_what_it_holds(
    browser: Browser, lone_site: Site
) -> None:
    viewer = Viewer(browser, lone_site.address)
    page = await viewer.open("workers")
    await expect(page.get_by_text("No workers")).to_be_visible()
    # Whoever calls there is heard by nobody, and not refused either.
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        told = {"id": "hal", "url": address, "services": ["sum", "ship"]}
        lone_site.call("POST", "/workers/register", told)
        worker = page.get_by_label("Worker hal")
        for words in (address, "sum", "ship", "Alive", "0 calls", "waits for nothing"):
            await expect(worker).to_contain_text(words)
        node = {"kind": "executor", "service": "ship"}
        lone_site.publish("calls", {"start": "a", "nodes": {"a": node}})
        task_id = lone_site.started("calls")
        lone_site.call("POST", "/workers/heartbeat", {"id": "hal", "load": 1})
        await expect(worker).to_contain_text("1 call")
        held = worker.get_by_role("link", name=f"Task {task_id[-12:]}")
        await held.click()
        await expect(page.get_by_test_id("node")).to_have_attribute("data-state", "running")
        lone_site.call("POST", f"/api/tasks/{task_id}/cancel", {})
        await viewer.go(page, "workers")
        await expect(worker).to_contain_text("waits for nothing")
    # Nothing was heard of it for longer than it may be silent (R5.8).
    await expect(worker).to_contain_text("Silent", timeout=30_000)
    await expect(worker).to_contain_text("gets no calls")
    await viewer.leave()
