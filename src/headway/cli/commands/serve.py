"""`headway serve`: the jobs of a file of yours, as a service."""

import asyncio
import re
import signal
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from typing import Annotated, Final

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from headway.api.http.access import Access, Scope, Token
from headway.api.http.origin import PublicAddress
from headway.api.server import check_exposure, is_any_address, open_listener
from headway.api.server import serve as serve_http
from headway.cli.load_app import load_app
from headway.cli.output.log_format import configure_logging
from headway.core.errors import ConfigurationError
from headway.log import event_log
from headway.process import raise_open_file_limit, run_process
from headway.settings import Settings, load_settings

log = event_log(__name__)

TOKEN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)
NO_TOKEN_WARNING: Final = (
    "no_token",
    "no token is set: whoever can reach this address can do everything",
)
NO_ALLOWED_HOSTS_WARNING: Final = (
    "no_allowed_hosts",
    "it listens on all addresses; the names by which others call it go into HEADWAY_ALLOWED_HOSTS",
)
"""What a server says when it starts, where nothing else is configured."""


def serve(
    *,
    app: Annotated[str | None, Parameter(name="--app")] = None,
    host: str | None = None,
    port: int | None = None,
    public_url: str | None = None,
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
    public_url
        Where browsers find the server when a proxy stands in front of it.
    """
    # For the whole life of the process, and not only while it serves.
    signal.signal(signal.SIGUSR1, _log_reset_not_needed)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # Until the server runs. From then on, SIGHUP reloads.
        signal.signal(signal.SIGHUP, _ignore_hangup)
    raise_open_file_limit()
    run_process(_serve(app=app, host=host, port=port, public_url=public_url))


def _log_reset_not_needed(*_: object) -> None:
    """What resets lanes within a process (R3.8) must not end one whose lanes are durable."""
    reason = {"reason": "slots of the dead are freed by their leases"}
    say = partial(log.info, "reset_not_needed", extra=reason)
    with suppress(RuntimeError):  # Too early or too late to say anything.
        asyncio.get_running_loop().call_soon_threadsafe(say)


def _ignore_hangup(*_: object) -> None:
    """Ignore SIGHUP, so that it does not end a server that starts or stops."""


async def _serve(
    *, app: str | None, host: str | None, port: int | None, public_url: str | None
) -> None:
    settings = load_settings()
    access = Access(parse_tokens(settings))
    listens_on = settings.host if host is None else host
    found_at = settings.public_url if public_url is None else public_url
    # Before anything is opened or made.
    check_exposure(listens_on, access)
    public = None if found_at is None else PublicAddress.parse(found_at)
    configure_logging(settings)
    notes = [NO_TOKEN_WARNING] if access.is_open else []
    if is_any_address(listens_on) and public is None and not settings.allowed_hosts:
        notes.append(NO_ALLOWED_HOSTS_WARNING)

    def ready(address: str) -> None:
        if settings.log_format == "json":
            log.info("server_ready", extra={"address": address, "needs_token": not access.is_open})
            for event, words in notes:
                log.warning(event, extra={"reason": words})
            return
        said = Text.assemble("headway serves ", (address, "bold"), f"  (page: {address}/ui/)")
        lines = (said, *(Text(words) for _, words in notes))
        Console(stderr=True).print(Text("\n").join(lines), soft_wrap=True)

    listens_at = settings.port if port is None else port
    # Before any job begins: a server that is started twice must not execute anything.
    with open_listener(listens_on, listens_at) as listener:
        async with load_app(app) as hw, hw.reload_on_hangup():
            await serve_http(
                hw,
                listener=listener,
                host=listens_on,
                port=listens_at,
                access=access,
                allowed_hosts=settings.allowed_hosts,
                version=version("headway"),
                on_ready=ready,
                public_address=public,
            )


def parse_tokens(settings: Settings) -> list[Token]:
    tokens = [] if settings.token is None else [Token(settings.token, Scope.OPERATE)]
    for given in settings.tokens:
        holder, _, secret = given.partition("=")
        word, colon, name = holder.partition(":")
        is_name = TOKEN_NAME.fullmatch(name) if colon else True
        if word.upper() not in Scope.__members__ or not is_name or not secret:
            scopes = ", ".join(scope.label for scope in Scope)
            raise ConfigurationError(
                f"tokens must be given as scope=secret or scope:name=secret, the scope one of:"
                f" {scopes}, the name of at most 40 letters, digits, _ and -"
            )
        tokens.append(Token(secret, Scope[word.upper()], name))
    return tokens
