"""The OpenAPI document, as it is kept for the page's client: `python -m tests.api.openapi`."""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any, Final

from headway.bootstrap import upgrade_database
from tests.api.client import Client
from tests.api.conftest import served

KEPT: Final = Path(__file__).parents[2] / "web" / "openapi.json"


async def described(client: Client) -> dict[str, Any]:
    """What the server says of itself, but for its version."""
    document: dict[str, Any] = (await client.get("/openapi.json")).body
    document["info"]["version"] = "0"
    return document


async def write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/headway.db"
        await upgrade_database([url])
        async with served(url) as client:
            document = await described(client)
    KEPT.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(write())
