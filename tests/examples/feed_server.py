"""A small web server on loopback that behaves as badly as a test wants."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Web:
    """What is found at which path: a body, or a status and a place to go to instead."""

    port: int = 0
    bodies: dict[str, bytes] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    locations: dict[str, str] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    """Content-Length, where it is not the truth."""
    stalled: set[str] = field(default_factory=set)
    """Sends half of the body, and the rest when `go_on` is set."""
    endless: set[str] = field(default_factory=set)
    go_on: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    half_sent: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def json_feed(self, path: str, *media: str, next_path: str | None = None) -> str:
        """A page of a JSON Feed; its address."""
        items = [{"id": one, "attachments": [{"url": one}]} for one in media]
        feed: dict[str, Any] = {"version": "https://jsonfeed.org/version/1.1", "items": items}
        if next_path:
            feed["next_url"] = next_path
        self.bodies[path] = json.dumps(feed).encode()
        return self.url(path)

    def files(self, *paths: str) -> None:
        for path in paths:
            self.bodies[path] = f"content of {path}".encode() * 100

    def fetched(self) -> list[str]:
        """What was asked for that is no feed, in order; and is forgotten."""
        asked, self.asked = self.asked, []
        return [path for path in asked if not path.startswith("/feed")]


@contextmanager
def served() -> Iterator[Web]:
    web = Web()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append(self.path)
            body = web.bodies.get(self.path)
            known = body is not None or self.path in web.endless
            status = web.statuses.get(self.path, 200 if known else 404)
            self.send_response(status)
            if self.path in web.locations:
                self.send_header("Location", web.locations[self.path])
            body = body or b""
            if self.path not in web.endless:
                self.send_header("Content-Length", str(web.promised.get(self.path, len(body))))
            self.end_headers()
            self._send(body)

        def _send(self, body: bytes) -> None:
            try:
                if self.path in web.stalled:
                    self.wfile.write(body[: len(body) // 2])
                    web.half_sent.set()
                    web.go_on.wait()
                    body = body[len(body) // 2 :]
                self.wfile.write(body)
                while self.path in web.endless and not web.go_on.is_set():
                    self.wfile.write(b"x" * 65_536)
            except OSError:  # It has hung up.
                return

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    web.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield web
    finally:
        web.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
