"""How the page is served: from this server alone, under a strict policy."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from headway.api.web_page import add_page
from tests.api.client import Client

INDEX = "<!doctype html><title>headway</title>"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX, encoding="utf-8")
    (folder / "assets" / "index-4f2a.js").write_text("x" * 5_000, encoding="utf-8")
    return folder


@dataclass
class Got:
    status: int
    headers: dict[str, str]
    body: bytes


async def got(folder: Path, path: str) -> Got:
    """What an application that serves the page of `folder` answers."""
    app = FastAPI()
    add_page(app, folder)
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()  # The client stays.

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode()}
    more = {"query_string": b"", "headers": [(b"accept-encoding", b"gzip")], "root_path": ""}
    await app({**scope, **more}, receive, send)
    headers = {name.decode(): value.decode() for name, value in told[0]["headers"]}
    return Got(told[0]["status"], headers, b"".join(part.get("body", b"") for part in told[1:]))


@pytest.mark.proves("S8")
async def test_the_page_comes_with_a_policy_that_lets_nothing_else_in(built: Path) -> None:
    answer = await got(built, "/ui/")
    assert (answer.status, answer.body) == (200, INDEX.encode())
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-cache"


async def test_what_has_a_hash_in_its_name_is_kept_and_packed(built: Path) -> None:
    answer = await got(built, "/ui/assets/index-4f2a.js")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"


@pytest.mark.proves("S7")
@pytest.mark.parametrize("path", ["/ui/../secret", "/ui//etc/passwd", "/ui/nothing.js"])
async def test_nothing_outside_of_the_page_is_served(built: Path, path: str) -> None:
    (built.parent / "secret").write_text("hush", encoding="utf-8")
    assert (await got(built, path)).status == 404


async def test_a_checkout_without_the_page_says_how_to_build_it(tmp_path: Path) -> None:
    answer = await got(tmp_path, "/ui/")
    assert answer.status == 404
    assert b"make page" in answer.body


@pytest.mark.backend("sqlite")
async def test_the_root_leads_a_browser_to_the_page(client: Client) -> None:
    answer = await client.get("/")
    assert (answer.status, answer.headers["location"]) == (307, "ui/")


@pytest.mark.backend("sqlite")
async def test_a_key_may_hold_a_slash(client: Client) -> None:
    saved = await client.call("PUT", "/api/keys/team%2Fann", {"job": "stay", "params": {}})
    assert (saved.status, saved["key"]) == (200, "team/ann")
    assert (await client.call("DELETE", "/api/keys/team%2Fann")).status == 204
