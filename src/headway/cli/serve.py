"""`headway serve`: the jobs of a file of yours, as a service."""

import importlib
import logging
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from headway.api.access import Access, Scope, Token
from headway.api.server import serve as serve_http
from headway.app import Headway
from headway.core.errors import ConfigurationError
from headway.settings import Settings, load_settings


async def serve(
    *,
    app: Annotated[str | None, Parameter(name="--app")] = None,
    host: str | None = None,
    port: int | None = None,
) -> None:
    """Serve runs over HTTP until Ctrl-C.

    Parameters
    ----------
    app
        Where your jobs are, as `module:name`: a `Headway` in a file of yours.
    host
        The address to listen on; any but loopback needs a token.
    port
        The port to listen on; 0 takes a free one.
    """
    settings = load_settings()
    access = Access(tokens_of(settings))
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    console = Console(stderr=True)

    def ready(address: str) -> None:
        console.print(f"headway serves [bold]{address}[/]  (API: {address}/openapi.json)")
        if access.is_open:
            console.print("no token is set: whoever can reach this address can do everything")

    async with load_app(app) as hw:
        await serve_http(
            hw,
            host=settings.host if host is None else host,
            port=settings.port if port is None else port,
            access=access,
            allowed_hosts=settings.allowed_hosts,
            version=version("headway"),
            on_ready=ready,
        )


def tokens_of(settings: Settings) -> list[Token]:
    tokens = [] if settings.token is None else [Token(settings.token, Scope.OPERATE)]
    for given in settings.tokens:
        word, _, secret = given.partition("=")
        if word.upper() not in Scope.__members__ or not secret:
            scopes = ", ".join(scope.word for scope in Scope)
            raise ConfigurationError(
                f"tokens must be given as scope=secret, and the scope one of: {scopes}"
            )
        tokens.append(Token(secret, Scope[word.upper()]))
    return tokens


def load_app(place: str | None) -> Headway:
    """The Headway at `module:name`; ConfigurationError says what is not there."""
    if place is None:
        return Headway()
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise ConfigurationError(f"--app {place!r} must be module:name, such as jobs:hw")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # A module that theirs wants: its own words say which.
        raise ConfigurationError(f"--app {place!r}: there is no module {error.name!r}") from None
    found = getattr(module, name, None)
    if not isinstance(found, Headway):
        there = [key for key, value in vars(module).items() if isinstance(value, Headway)]
        known = f"; it has {', '.join(there)}" if there else ""
        raise ConfigurationError(f"--app {place!r}: {name} is not a Headway there{known}")
    return found
