"""Mirror the media that a feed lists (JSON Feed, RSS or Atom), page by page.

    python examples/feed_mirror.py https://example.org/feed.json --kinds jpg mp4

A crash or a cancel costs nothing: `--continue` goes on at its page, and skips what is there. A file
that cannot be fetched does not stop the others; the run fails, and `--continue` tries it again.
"""

import argparse
import asyncio
import hashlib
import json
import re
import time
import xml.etree.ElementTree as ET
from http.client import HTTPException
from typing import Any
from urllib import request
from urllib.parse import urljoin, urlsplit

from headway import BlockingRunContext, Error, Headway

FEED_BYTES_MAX, PAGES_MAX = 10 << 20, 10_000
TIMEOUT_S = 30.0  # Of silence; the job's own timeout bounds the whole.
ATOM = "{http://www.w3.org/2005/Atom}"
MEDIA = "{http://search.yahoo.com/mrss/}"
# Nothing but HTTP, redirects included: a feed must not make us read `file:` or `ftp:`.
web = request.OpenerDirector()
web.add_handler(request.HTTPHandler())
web.add_handler(request.HTTPSHandler())
web.add_handler(request.HTTPRedirectHandler())
web.add_handler(request.HTTPErrorProcessor())
web.add_handler(request.HTTPDefaultErrorHandler())
web.add_handler(request.UnknownHandler())


def mirror(
    ctx: BlockingRunContext, url: str, kinds: list[str] = ["jpg", "mp4"], max_bytes: int = 1 << 30
) -> dict[str, int]:
    """The job. `max_bytes` bounds each file."""
    cursor = ctx.checkpoint or {}
    if cursor.get("feed") != url or cursor["next"] is None:  # Another feed, or it came to its end.
        cursor = {"next": url, "page": 1}
    page_url, number = cursor["next"], cursor["page"]
    figures = {"downloaded": 0, "skipped": 0, "filtered": 0, "failed": 0}
    bytes_count, began_s, problem = 0, time.monotonic(), ""
    while page_url is not None:
        if number > PAGES_MAX:
            raise ValueError(f"{page_url}: the feed has more than {PAGES_MAX:,} pages")
        media, next_url = read_feed(fetch(page_url), page_url)
        for media_url in media:
            path = path_of(media_url)
            if path.rsplit(".", 1)[-1].lower() not in kinds:
                figures["filtered"] += 1
            elif ctx.has_file(path):
                figures["skipped"] += 1
            else:
                try:
                    bytes_count += download(ctx, media_url, path, max_bytes)
                    figures["downloaded"] += 1
                except (OSError, HTTPException, ValueError) as error:  # The others go on.
                    figures["failed"] += 1
                    problem = problem or f"{media_url}: {error}"
                    ctx.log(f"{media_url}: {error}", level="warning")
            rate = round(bytes_count / max(time.monotonic() - began_s, 0.001))
            ctx.progress(**figures, page=number, bytes_per_s=rate)
        page_url, number = next_url, number + 1
        if not problem:  # Else Continue begins at the page of the first file that failed.
            ctx.save_checkpoint({"feed": url, "next": page_url, "page": number})
    if problem:
        raise RuntimeError(f"{figures['failed']} could not be fetched; the first: {problem}")
    return figures


def download(ctx: BlockingRunContext, url: str, path: str, max_bytes: int) -> int:
    """Fetch one file; what is too large, or ends too early, is not kept."""
    with web.open(url, timeout=TIMEOUT_S) as answer, ctx.file(path) as file:
        promised, count = answer.length, 0
        while chunk := answer.read1(1 << 16):
            count += len(chunk)
            if count > max_bytes:
                raise ValueError(f"is larger than {max_bytes:,} bytes")
            file.write(chunk)  # Once the run is to end, this raises CancelledError.
        if promised is not None and count != promised:
            raise ValueError(f"ended after {count:,} of {promised:,} bytes")
        return count


def fetch(url: str) -> bytes:
    with web.open(url, timeout=TIMEOUT_S) as answer:
        body: bytes = answer.read(FEED_BYTES_MAX + 1)
    if len(body) > FEED_BYTES_MAX:
        raise ValueError(f"{url}: the feed is larger than {FEED_BYTES_MAX:,} bytes")
    return body


def read_feed(body: bytes, base: str) -> tuple[list[str], str | None]:
    """The media that a page lists, and the next page, as absolute addresses."""
    text = body.decode("utf-8-sig")
    media, next_url = _read_json(text) if text.lstrip()[:1] == "{" else _read_xml(text)
    found = [urljoin(base, address) for address in media if address]
    return list(dict.fromkeys(found)), urljoin(base, next_url) if next_url else None


def _read_json(text: str) -> tuple[list[str | None], str | None]:
    feed: dict[str, Any] = json.loads(text)
    attachments = [one for item in feed["items"] for one in item.get("attachments", [])]
    return [one.get("url") for one in attachments], feed.get("next_url")


def _read_xml(text: str) -> tuple[list[str | None], str | None]:
    # Entities, and so bombs of them, are declared in a DOCTYPE, which no feed needs. The text is
    # decoded already: no other encoding can hide one.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("the feed has a DOCTYPE, which is refused")
    feed = ET.fromstring(text)  # noqa: S314
    links = [*feed.iter(f"{ATOM}link")]
    media = [one.get("url") for tag in ("enclosure", f"{MEDIA}content") for one in feed.iter(tag)]
    media += [link.get("href") for link in links if link.get("rel") == "enclosure"]
    return media, next((link.get("href") for link in links if link.get("rel") == "next"), None)


def path_of(url: str) -> str:
    """A name that tells two addresses apart and leads nowhere else, whatever the feed says."""
    name = re.sub(r"[^\w.-]", "_", urlsplit(url).path.rsplit("/", 1)[-1], flags=re.ASCII)
    return f"{hashlib.sha256(url.encode()).hexdigest()[:12]}-{name[-80:]}"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--kinds", nargs="+", default=["jpg", "mp4"])
    parser.add_argument("--continue", action="store_true", dest="continues")
    parser.add_argument("--existing", choices=["replace", "archive", "delete"])
    said, hw = parser.parse_args(), Headway()
    hw.job(timeout_s=24 * 3600)(mirror)
    async with hw:
        submit = hw.continue_ if said.continues else hw.start
        params = {"url": said.url, "kinds": said.kinds}
        try:
            run = await submit(
                "mirror", key=said.url, params=params, on_existing_output=said.existing
            )
            async for event in run.events():
                print(event.type, event.payload)
            print(await run.result())
        except Error as error:
            print(error)


if __name__ == "__main__":
    asyncio.run(main())
