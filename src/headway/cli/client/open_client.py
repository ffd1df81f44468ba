"""Opens a client to the configured server, or else to the database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from headway.cli.client.api_client import ApiError, Client
from headway.core.errors import ConfigurationError, Error
from headway.settings import load_settings

MISSING_TOKEN: Final = "this server requires a token; set HEADWAY_TOKEN"  # noqa: S105
WRONG_TOKEN: Final = "HEADWAY_TOKEN is not a valid token of this server"  # noqa: S105


@asynccontextmanager
async def open_client(app: str | None) -> AsyncIterator[Client]:
    """Open a client to the server at HEADWAY_URL, or else to the database.

    `app` is used only without a server. It names the Headway with the jobs and the database, as
    `module:name`.
    """
    settings = load_settings()
    # Import only the transport that is used: both are slow to import.
    if settings.url is not None:
        from headway.cli.client.http_client import open_http  # noqa: PLC0415

        token = None if settings.token is None else settings.token.get_secret_value()
        async with open_http(settings.url, token) as http:
            try:
                yield Client(http)
            except ApiError as error:
                raise _explain_error(
                    error, settings.url, has_token=settings.token is not None
                ) from None
        return
    from headway.cli.client.in_process import open_local  # noqa: PLC0415

    async with open_local(app) as local:
        yield Client(local)


def _explain_error(error: ApiError, url: str, *, has_token: bool) -> Error:
    """Return the error to show to the user. It names the setting that caused it, if any."""
    if error.code == "not_found":  # An unknown path. A missing run or lane has its own code.
        return ConfigurationError(f"{error}; is HEADWAY_URL={url} the address of the server?")
    if error.code == "unauthorized":
        error.args = (WRONG_TOKEN if has_token else MISSING_TOKEN,)
    return error
