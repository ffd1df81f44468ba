"""To a server if one is configured, else to the database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headway.cli.client.client import Client
from headway.settings import load_settings


@asynccontextmanager
async def connected(app: str | None) -> AsyncIterator[Client]:
    """`app` is where the jobs and the database are, as `module:name`, if no server is asked."""
    settings = load_settings()
    if settings.url is not None:
        from headway.cli.client.http import opened_http  # noqa: PLC0415  # Only the one needed.

        async with opened_http(settings.url, settings.token) as http:
            yield Client(http)
        return
    from headway.cli.client.local import opened_local  # noqa: PLC0415  # It is slow to import.

    async with opened_local(app) as local:
        yield Client(local)
