"""Write the OpenAPI document for the web client: `python -m tests.api.openapi`."""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from headway.bootstrap import upgrade_database
from tests.api.client import Client
from tests.api.conftest import served

DOCUMENT_PATH: Final = Path(__file__).parents[2] / "web" / "openapi.json"


async def fetch_document(client: Client) -> dict[str, Any]:
    """Return the OpenAPI document of the server, with the version set to 0."""
    document: dict[str, Any] = (await client.get("/openapi.json")).body
    document["info"]["version"] = "0"
    return document


def component_validator(name: str) -> jsonschema_rs.Draft202012Validator:
    """Return a validator for values of a component of the stored document."""
    document = json.loads(DOCUMENT_PATH.read_text(encoding="utf-8"))
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return jsonschema_rs.Draft202012Validator(schema)


async def write_document() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/headway.db"
        await upgrade_database([url])
        async with served(url) as client:
            document = await fetch_document(client)
    DOCUMENT_PATH.write_text(
        json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    asyncio.run(write_document())
