"""`python -m tests.bench.server.bare FILE`: the framework alone, with nothing behind it.

The same body is checked, an answer of the same size is returned, and events go to all listeners.
The address is written to FILE.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse

from headway.api.wire.api_models import SubmitBody
from headway.process.dedicated import run_process

EVENT = b'id: %d\nevent: run_state_changed\ndata: {"seq":%d,"said":"' + b"x" * 250 + b'"}\n\n'
ANSWER = '{"id":"0199c3f2-7c1e-7a55-9d0b-2f6f2f1f9a10","said":"' + "x" * 700 + '"}'


class Hub:
    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.changed = asyncio.Event()

    def publish(self) -> None:
        number = len(self.events) + 1
        self.events.append(EVENT % (number, number))
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    async def stream(self) -> AsyncIterator[bytes]:
        place = len(self.events)
        while True:
            changed = self.changed
            if place == len(self.events):
                await changed.wait()
                continue
            chunk = b"".join(self.events[place:])
            place = len(self.events)
            yield chunk


def application() -> FastAPI:
    app = FastAPI(openapi_url=None)
    hub = Hub()

    @app.post("/api/runs", status_code=201)
    async def submit(body: SubmitBody) -> Response:
        hub.publish()
        return Response(ANSWER, status_code=201, media_type="application/json")

    @app.get("/api/events")
    async def events() -> StreamingResponse:
        return StreamingResponse(hub.stream(), media_type="text/event-stream")

    return app


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2_048)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(
        application(),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    Path(sys.argv[1]).write_text(f"http://127.0.0.1:{listener.getsockname()[1]}")
    run_process(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
