"""The feed mirror fetches each wanted file once and whole, also on a bad network (R1.12)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.feed_mirror import file_name, mirror, read_feed

from headway import Headway, OutputExists, RunFailed, RunHandle, RunStatus
from tests.engine.folders import files_below, parts, wait_until
from tests.examples.feed_server import Web, serve_web

pytestmark = pytest.mark.backend("sqlite")
BASE = "http://example.org/feed"


@pytest.fixture
def web() -> Iterator[Web]:
    with serve_web() as web:
        yield web


@pytest.fixture
async def hw(url: str) -> AsyncIterator[Headway]:
    hw = Headway(url)
    hw.job()(mirror)
    async with hw:
        yield hw


async def start_mirror(hw: Headway, url: str, **params: Any) -> RunHandle:
    return await hw.start("mirror", key="ann", params={"url": url, **params})


async def continue_mirror(hw: Headway, url: str, **params: Any) -> RunHandle:
    return await hw.continue_("mirror", key="ann", params={"url": url, **params})


def mirrored_files(tmp_path: Path, web: Web) -> dict[str, bytes]:
    """Return the mirrored files by the path that they were fetched from."""
    files = files_below(tmp_path / "data" / "keys" / "ann")
    paths = {file_name(web.url(path)): path for path in (*web.bodies, *web.endless)}
    return {paths[name]: text.encode() for name, text in files.items()}


def counts(downloaded: int = 0, skipped: int = 0, filtered: int = 0) -> dict[str, int]:
    return {"downloaded": downloaded, "skipped": skipped, "filtered": filtered, "failed": 0}


@pytest.mark.proves("R1.12")
async def test_all_pages_are_fetched_and_existing_or_unwanted_files_skipped(
    hw: Headway, web: Web, tmp_path: Path
) -> None:
    web.add_files("/1.jpg", "/2.mp4", "/3.JPG", "/4.gif")
    url = web.json_feed("/feed/1", "/1.jpg", "/4.gif", "/1.jpg", next_path="/feed/2")
    web.json_feed("/feed/2", "/2.mp4", "/3.JPG", "/1.jpg")
    run = await start_mirror(hw, url)
    assert await run.result() == counts(downloaded=3, skipped=1, filtered=1)
    assert web.take_fetched() == ["/1.jpg", "/2.mp4", "/3.JPG"]
    assert mirrored_files(tmp_path, web) == {
        p: web.bodies[p] for p in ("/1.jpg", "/2.mp4", "/3.JPG")
    }
    progress = (await run.record()).progress
    assert progress is not None
    assert '"page":2' in progress
    # After a finished run, `continue_` reads the feed from the start and fetches new files.
    web.add_files("/5.jpg")
    web.json_feed("/feed/2", "/2.mp4", "/5.jpg")
    assert await (await continue_mirror(hw, url)).result() == counts(1, skipped=2, filtered=1)
    with pytest.raises(OutputExists):
        await start_mirror(hw, url)


@pytest.mark.proves("R1.12")
async def test_failed_file_fails_the_run_and_a_continued_run_fetches_it_again(
    hw: Headway, web: Web, tmp_path: Path
) -> None:
    web.add_files("/1.jpg", "/2.jpg", "/3.jpg", "/4.jpg")
    web.statuses["/2.jpg"] = 500
    url = web.json_feed("/feed/1", "/1.jpg", next_path="/feed/2")
    web.json_feed("/feed/2", "/2.jpg", "/gone.jpg", "/3.jpg", next_path="/feed/3")
    web.json_feed("/feed/3", "/4.jpg")
    with pytest.raises(
        RunFailed, match=r"2 files could not be fetched; the first: .*/2\.jpg: .* 500"
    ):
        await (await start_mirror(hw, url)).result()
    assert set(mirrored_files(tmp_path, web)) == {"/1.jpg", "/3.jpg", "/4.jpg"}
    web.add_files("/gone.jpg")
    del web.statuses["/2.jpg"]
    web.requested.clear()
    assert await (await continue_mirror(hw, url)).result() == counts(downloaded=2, skipped=2)
    assert web.requested == ["/feed/2", "/2.jpg", "/gone.jpg", "/feed/3"]
    await wait_until(lambda: not parts(tmp_path))


@pytest.mark.proves("R1.8")
async def test_truncated_or_oversized_file_is_not_stored(
    hw: Headway, web: Web, tmp_path: Path
) -> None:
    web.add_files("/short.jpg", "/whole.jpg")
    web.announced_lengths["/short.jpg"] = 10_000_000
    web.endless.add("/endless.jpg")
    url = web.json_feed("/feed/1", "/short.jpg", "/endless.jpg", "/whole.jpg")
    with pytest.raises(
        RunFailed, match=r"2 files could not be fetched; the first: .*/short\.jpg"
    ) as failed:
        await (await start_mirror(hw, url, max_bytes=200_000)).result()
    assert "of 10,000,000 bytes" in str(failed.value)
    assert list(mirrored_files(tmp_path, web)) == ["/whole.jpg"]


@pytest.mark.proves("S7")
async def test_redirect_is_followed_except_to_a_local_file(
    hw: Headway, web: Web, tmp_path: Path
) -> None:
    web.add_files("/real.jpg", "/moved.jpg", "/evil.jpg")
    web.statuses |= {"/moved.jpg": 302, "/evil.jpg": 302, "/loop.jpg": 302}
    web.locations |= {"/moved.jpg": "/real.jpg", "/evil.jpg": "file:///etc/hostname"}
    web.locations["/loop.jpg"] = "/loop.jpg"
    media = ("/moved.jpg", "/evil.jpg", "/loop.jpg", "file:///etc/hostname.jpg")
    url = web.json_feed("/feed/1", *media)
    with pytest.raises(RunFailed, match="3 files could not be fetched"):
        await (await start_mirror(hw, url)).result()
    assert mirrored_files(tmp_path, web) == {"/moved.jpg": web.bodies["/real.jpg"]}


@pytest.mark.proves("R1.8")
@pytest.mark.parametrize("files", ["keep", "delete"])
async def test_run_canceled_during_a_download_keeps_or_deletes_files_and_can_continue(
    hw: Headway, web: Web, tmp_path: Path, files: str
) -> None:
    web.add_files("/1.jpg", "/2.jpg")
    web.stalled.add("/2.jpg")
    url = web.json_feed("/feed/1", "/1.jpg", next_path="/feed/2")
    web.json_feed("/feed/2", "/2.jpg")
    run = await start_mirror(hw, url)
    await asyncio.to_thread(web.half_sent.wait)
    assert list(mirrored_files(tmp_path, web)) == ["/1.jpg"]
    await run.cancel(files=files)
    web.resume.set()  # The job notices the cancel at its next write.
    assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert list(mirrored_files(tmp_path, web)) == (["/1.jpg"] if files == "keep" else [])
    web.stalled.clear()
    web.requested.clear()
    again = await continue_mirror(hw, url)
    if files == "keep":  # The cursor is past the first page.
        assert await again.result() == counts(downloaded=1)
        assert web.requested == ["/feed/2", "/2.jpg"]
    else:
        assert await again.result() == counts(downloaded=2)
        assert web.requested == ["/feed/1", "/1.jpg", "/feed/2", "/2.jpg"]
    assert mirrored_files(tmp_path, web) == {
        path: web.bodies[path] for path in ("/1.jpg", "/2.jpg")
    }


@pytest.mark.proves("R1.9", "R2.6")
async def test_run_restarted_during_a_download_resumes_at_its_page(
    url: str, web: Web, tmp_path: Path
) -> None:
    """A deploy stops the process in the middle: no file is fetched twice, and none is lost."""
    web.add_files("/1.jpg", "/2.jpg")
    web.stalled.add("/2.jpg")
    feed = web.json_feed("/feed/1", "/1.jpg", next_path="/feed/2")
    web.json_feed("/feed/2", "/2.jpg")
    before = Headway(url, stop_wait_s=0)
    before.job()(mirror)
    await before.__aenter__()
    run_id = (await start_mirror(before, feed)).id
    await asyncio.to_thread(web.half_sent.wait)
    web.stalled.clear()
    web.requested.clear()
    engine = before._opened.engine
    assert engine is not None
    closing = asyncio.create_task(before.__aexit__(None, None, None))
    while not all(execution.ending for execution in engine._executing.values()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    web.resume.set()  # The job notices the stop at its next write.
    await closing
    after = Headway(url)
    after.job()(mirror)
    async with asyncio.timeout(60), after:
        assert await after.run(run_id).result() == counts(downloaded=1)
    assert web.requested == ["/feed/2", "/2.jpg"]
    assert mirrored_files(tmp_path, web) == {
        path: web.bodies[path] for path in ("/1.jpg", "/2.jpg")
    }


async def test_invalid_feed_page_fails_the_run_and_a_continued_run_resumes_there(
    hw: Headway, web: Web
) -> None:
    web.add_files("/1.jpg", "/2.jpg")
    url = web.json_feed("/feed/1", "/1.jpg", next_path="/feed/2")
    web.bodies["/feed/2"] = b"<html>busy"
    with pytest.raises(RunFailed, match="ParseError"):
        await (await start_mirror(hw, url)).result()
    web.json_feed("/feed/2", "/2.jpg")
    web.requested.clear()
    assert await (await continue_mirror(hw, url)).result() == counts(downloaded=1)
    assert web.requested == ["/feed/2", "/2.jpg"]


async def test_feed_whose_pages_form_a_cycle_fails(
    hw: Headway, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("examples.feed_mirror.PAGES_MAX", 5)
    url = web.json_feed("/feed/1", next_path="/feed/2")
    web.json_feed("/feed/2", next_path="/feed/1")
    with pytest.raises(RunFailed, match="the feed has more than 5 pages"):
        await (await start_mirror(hw, url)).result()


def test_rss_and_atom_list_their_media_and_the_next_page() -> None:
    rss = b"""\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>
    <rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"
         xmlns:media="http://search.yahoo.com/mrss/"><channel>
      <atom:link rel="next" href="?page=2"/>
      <item><enclosure url="a/1.mp4" length="1" type="video/mp4"/></item>
      <item><media:content url="https://cdn.example.org/2.jpg"/></item>
    </channel></rss>"""
    media = ["http://example.org/a/1.mp4", "https://cdn.example.org/2.jpg"]
    assert read_feed(rss, BASE) == (media, "http://example.org/feed?page=2")
    atom = b"""<feed xmlns="http://www.w3.org/2005/Atom">
      <link rel="self" href="/feed"/><entry><link rel="enclosure" href="/3.jpg"/></entry></feed>"""
    assert read_feed(atom, BASE) == (["http://example.org/3.jpg"], None)


BOMB = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><rss>&b;</rss>"""


@pytest.mark.proves("S7")
@pytest.mark.parametrize(
    "body",
    [
        BOMB.encode(),
        BOMB.encode("utf-16"),
        BOMB.encode("utf-7"),
        b'<?xml encoding="utf-7"?>' + b"\xff",
    ],
)
def test_feed_with_a_doctype_is_refused_in_every_encoding(body: bytes) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        read_feed(body, BASE)


@pytest.mark.proves("S7")
def test_file_names_are_unique_and_contain_no_path_separator() -> None:
    for url in ("http://e.org/../../x.jpg", "http://e.org/a%2f..%2fx.jpg", "http://e.org/\\x.jpg"):
        assert "/" not in file_name(url)
    assert file_name("http://e.org/a/x.jpg") != file_name("http://e.org/b/x.jpg")
