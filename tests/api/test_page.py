"""The web page is served from this server only, under a strict content security policy."""

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
def page_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX, encoding="utf-8")
    (folder / "assets" / "index-4f2a.js").write_text("x" * 5_000, encoding="utf-8")
    return folder


@dataclass
class PageResponse:
    status: int
    headers: dict[str, str]
    body: bytes


async def fetch(folder: Path, path: str) -> PageResponse:
    """Return the answer of an application that serves the page in `folder`."""
    app = FastAPI()
    add_page(app, folder)
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()  # The client stays connected.

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode()}
    more = {"query_string": b"", "headers": [(b"accept-encoding", b"gzip")], "root_path": ""}
    await app({**scope, **more}, receive, send)
    headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    return PageResponse(
        messages[0]["status"], headers, b"".join(part.get("body", b"") for part in messages[1:])
    )


@pytest.mark.proves("S8")
async def test_page_has_a_strict_content_security_policy(page_folder: Path) -> None:
    answer = await fetch(page_folder, "/ui/")
    assert (answer.status, answer.body) == (200, INDEX.encode())
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-cache"


async def test_files_with_a_hash_in_their_name_are_cached_and_compressed(page_folder: Path) -> None:
    answer = await fetch(page_folder, "/ui/assets/index-4f2a.js")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"


@pytest.mark.proves("S7")
@pytest.mark.parametrize("path", ["/ui/../secret", "/ui//etc/passwd", "/ui/nothing.js"])
async def test_files_outside_of_the_page_are_not_served(page_folder: Path, path: str) -> None:
    (page_folder.parent / "secret").write_text("secret", encoding="utf-8")
    assert (await fetch(page_folder, path)).status == 404


async def test_checkout_without_the_page_explains_how_to_build_it(tmp_path: Path) -> None:
    answer = await fetch(tmp_path, "/ui/")
    assert answer.status == 404
    assert b"make page" in answer.body


@pytest.mark.backend("sqlite")
async def test_root_redirects_to_the_page(client: Client) -> None:
    answer = await client.get("/")
    assert (answer.status, answer.headers["location"]) == (307, "ui/")


@pytest.mark.backend("sqlite")
async def test_key_may_contain_a_slash(client: Client) -> None:
    saved = await client.call("PUT", "/api/keys/team%2Fann", {"job": "stay", "params": {}})
    assert (saved.status, saved["key"]) == (200, "team/ann")
    assert (await client.call("DELETE", "/api/keys/team%2Fann")).status == 204
