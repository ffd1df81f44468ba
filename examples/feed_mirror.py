"""Mirror the media that a feed lists (JSON Feed, RSS or Atom), page by page.

    python examples/feed_mirror.py https://example.org/feed.json --kinds jpg mp4

After a crash or a cancel, `--continue` resumes at the page that was being read and skips the files
that exist already. A file that cannot be fetched does not stop the others: the run fails at the
end, and `--continue` tries that file again.
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
TIMEOUT_S = 30.0  # The longest silence of a server. The job's timeout limits the whole run.
ATOM = "{http://www.w3.org/2005/Atom}"
MEDIA = "{http://search.yahoo.com/mrss/}"
# HTTP and HTTPS only, also after a redirect: a feed must not make us read `file:` or `ftp:` URLs.
opener = request.OpenerDirector()
opener.add_handler(request.HTTPHandler())
opener.add_handler(request.HTTPSHandler())
opener.add_handler(request.HTTPRedirectHandler())
opener.add_handler(request.HTTPErrorProcessor())
opener.add_handler(request.HTTPDefaultErrorHandler())
opener.add_handler(request.UnknownHandler())


def mirror(
    ctx: BlockingRunContext, url: str, kinds: list[str] = ["jpg", "mp4"], max_bytes: int = 1 << 30
) -> dict[str, int]:
    """The job: mirror every page of the feed at `url`. `max_bytes` limits the size of each file."""
    cursor = ctx.checkpoint or {}
    if cursor.get("feed") != url or cursor["next"] is None:  # Another feed, or a finished one.
        cursor = {"next": url, "page": 1}
    page_url, number = cursor["next"], cursor["page"]
    counts = {"downloaded": 0, "skipped": 0, "filtered": 0, "failed": 0}
    bytes_count, began_s, problem = 0, time.monotonic(), ""
    while page_url is not None:
        if number > PAGES_MAX:
            raise ValueError(f"{page_url}: the feed has more than {PAGES_MAX:,} pages")
        media, next_url = read_feed(fetch(page_url), page_url)
        for media_url in media:
            path = file_name(media_url)
            if path.rsplit(".", 1)[-1].lower() not in kinds:
                counts["filtered"] += 1
            elif ctx.has_file(path):
                counts["skipped"] += 1
            else:
                try:
                    bytes_count += download(ctx, media_url, path, max_bytes)
                    counts["downloaded"] += 1
                except (OSError, HTTPException, ValueError) as error:  # Continue with the others.
                    counts["failed"] += 1
                    problem = problem or f"{media_url}: {error}"
                    ctx.log(f"{media_url}: {error}", level="warning")
            rate = round(bytes_count / max(time.monotonic() - began_s, 0.001))
            ctx.progress(**counts, page=number, bytes_per_s=rate)
        page_url, number = next_url, number + 1
        if not problem:  # Otherwise `--continue` resumes at the page of the first failure.
            ctx.save_checkpoint({"feed": url, "next": page_url, "page": number})
    if problem:
        raise RuntimeError(f"{counts['failed']} files could not be fetched; the first: {problem}")
    return counts


def download(ctx: BlockingRunContext, url: str, path: str, max_bytes: int) -> int:
    """Fetch one file. Raise ValueError, and keep nothing, if it is too large or incomplete."""
    with opener.open(url, timeout=TIMEOUT_S) as response, ctx.file(path) as file:
        expected_count, count = response.length, 0
        while chunk := response.read1(1 << 16):
            count += len(chunk)
            if count > max_bytes:
                raise ValueError(f"is larger than {max_bytes:,} bytes")
            file.write(
                chunk
            )  # Raises CancelledError once the run is cancelled or the program stops.
        if expected_count is not None and count != expected_count:
            raise ValueError(f"ended after {count:,} of {expected_count:,} bytes")
        return count


def fetch(url: str) -> bytes:
    with opener.open(url, timeout=TIMEOUT_S) as response:
        body: bytes = response.read(FEED_BYTES_MAX + 1)
    if len(body) > FEED_BYTES_MAX:
        raise ValueError(f"{url}: the feed is larger than {FEED_BYTES_MAX:,} bytes")
    return body


def read_feed(body: bytes, base: str) -> tuple[list[str], str | None]:
    """Return the media that a page lists and the next page, as absolute URLs."""
    text = body.decode("utf-8-sig")
    media, next_url = _read_json(text) if text.lstrip()[:1] == "{" else _read_xml(text)
    media_urls = [urljoin(base, url) for url in media if url]
    return list(dict.fromkeys(media_urls)), urljoin(base, next_url) if next_url else None


def _read_json(text: str) -> tuple[list[str | None], str | None]:
    feed: dict[str, Any] = json.loads(text)
    attachments = [file for item in feed["items"] for file in item.get("attachments", [])]
    return [file.get("url") for file in attachments], feed.get("next_url")


def _read_xml(text: str) -> tuple[list[str | None], str | None]:
    # Entity bombs need a DOCTYPE, and feeds do not. The text is decoded already, so no other
    # encoding can hide one.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("the feed has a DOCTYPE, which is not allowed")
    feed = ET.fromstring(text)  # noqa: S314
    links = [*feed.iter(f"{ATOM}link")]
    media = [tag.get("url") for name in ("enclosure", f"{MEDIA}content") for tag in feed.iter(name)]
    media += [link.get("href") for link in links if link.get("rel") == "enclosure"]
    return media, next((link.get("href") for link in links if link.get("rel") == "next"), None)


def file_name(url: str) -> str:
    """Return a file name that is unique for the URL and contains no path separators."""
    name = re.sub(r"[^\w.-]", "_", urlsplit(url).path.rsplit("/", 1)[-1], flags=re.ASCII)
    return f"{hashlib.sha256(url.encode()).hexdigest()[:12]}-{name[-80:]}"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--kinds", nargs="+", default=["jpg", "mp4"])
    parser.add_argument("--continue", action="store_true", dest="is_continued")
    parser.add_argument("--existing", choices=["replace", "archive", "delete"])
    args, hw = parser.parse_args(), Headway()
    hw.job(timeout_s=24 * 3600)(mirror)
    async with hw:
        submit = hw.continue_ if args.is_continued else hw.start
        params = {"url": args.url, "kinds": args.kinds}
        try:
            run = await submit(
                "mirror", key=args.url, params=params, on_existing_output=args.existing
            )
            async for event in run.events():
                print(event.type, event.payload)
            print(await run.result())
        except Error as error:
            print(error)


if __name__ == "__main__":
    asyncio.run(main())
