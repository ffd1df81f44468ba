"""A small web server on the loopback interface that can misbehave in the ways a test needs."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Web:
    """The content of the server by path, and the requests that it has received."""

    port: int = 0
    bodies: dict[str, bytes] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    locations: dict[str, str] = field(default_factory=dict)
    announced_lengths: dict[str, int] = field(default_factory=dict)
    """The Content-Length to send, where it differs from the real length."""
    stalled: set[str] = field(default_factory=set)
    """Paths whose body stops at the half until `resume` is set."""
    endless: set[str] = field(default_factory=set)
    """Paths whose body goes on until `resume` is set or the client disconnects."""
    resume: threading.Event = field(default_factory=threading.Event)
    requested: list[str] = field(default_factory=list)
    half_sent: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def json_feed(self, path: str, *media: str, next_path: str | None = None) -> str:
        """Add a page of a JSON Feed and return its URL."""
        items = [{"id": url, "attachments": [{"url": url}]} for url in media]
        feed: dict[str, Any] = {"version": "https://jsonfeed.org/version/1.1", "items": items}
        if next_path:
            feed["next_url"] = next_path
        self.bodies[path] = json.dumps(feed).encode()
        return self.url(path)

    def add_files(self, *paths: str) -> None:
        for path in paths:
            self.bodies[path] = f"content of {path}".encode() * 100

    def take_fetched(self) -> list[str]:
        """Return the requested paths except feeds, in order, and clear the list."""
        paths, self.requested = self.requested, []
        return [path for path in paths if not path.startswith("/feed")]


@contextmanager
def serve_web() -> Iterator[Web]:
    """Serve a `Web` on a free port until the block ends."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.requested.append(self.path)
            body = web.bodies.get(self.path)
            is_known = body is not None or self.path in web.endless
            status = web.statuses.get(self.path, 200 if is_known else 404)
            self.send_response(status)
            if self.path in web.locations:
                self.send_header("Location", web.locations[self.path])
            body = body or b""
            if self.path not in web.endless:
                self.send_header(
                    "Content-Length", str(web.announced_lengths.get(self.path, len(body)))
                )
            self.end_headers()
            self._send(body)

        def _send(self, body: bytes) -> None:
            try:
                if self.path in web.stalled:
                    self.wfile.write(body[: len(body) // 2])
                    web.half_sent.set()
                    web.resume.wait()
                    body = body[len(body) // 2 :]
                self.wfile.write(body)
                while self.path in web.endless and not web.resume.is_set():
                    self.wfile.write(b"x" * 65_536)
            except OSError:  # The client has disconnected.
                return

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield web
    finally:
        web.resume.set()
        server.shutdown()
        thread.join()
        server.server_close()
