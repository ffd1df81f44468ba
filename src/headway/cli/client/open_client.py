"""To a server if one is configured, else to the database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from headway.cli.client.api_client import ApiError, Client
from headway.core.errors import ConfigurationError, Error
from headway.settings import load_settings

MISSING_TOKEN: Final = "this server wants a token: set HEADWAY_TOKEN"  # noqa: S105
WRONG_TOKEN: Final = "HEADWAY_TOKEN is none of this server's tokens"  # noqa: S105


@asynccontextmanager
async def open_client(app: str | None) -> AsyncIterator[Client]:
    """`app` is where the jobs and the database are, as `module:name`, if no server is asked."""
    settings = load_settings()
    if settings.url is not None:
        from headway.cli.client.http_client import open_http  # noqa: PLC0415  # Only the one needed.

        async with open_http(settings.url, settings.token) as http:
            try:
                yield Client(http)
            except ApiError as error:
                raise _explain_error(
                    error, settings.url, has_token=settings.token is not None
                ) from None
        return
    from headway.cli.client.in_process import open_local  # noqa: PLC0415  # It is slow to import.

    async with open_local(app) as local:
        yield Client(local)


def _explain_error(error: ApiError, url: str, *, has_token: bool) -> Error:
    """What is wrong with our settings is told in their words, and not in those of HTTP."""
    if error.code == "not_found":  # No such call: a run or a lane that is missing has its own code.
        return ConfigurationError(f"{error}; is HEADWAY_URL={url} the address of the server?")
    if error.code == "unauthorized":
        error.args = (WRONG_TOKEN if has_token else MISSING_TOKEN,)
    return error
