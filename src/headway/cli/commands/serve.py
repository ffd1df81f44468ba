"""`headway serve`: execute the user's jobs, and serve the HTTP API and the web page."""

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
from headway.process.dedicated import raise_open_file_limit, run_process
from headway.settings import Settings, load_settings

log = event_log(__name__)

TOKEN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)
NO_TOKEN_WARNING: Final = (
    "no_token",
    "no token is set: everyone who can reach this address has full access",
)
"""A warning at the start: log event and sentence."""
NO_ALLOWED_HOSTS_WARNING: Final = (
    "no_allowed_hosts",
    "the server listens on all addresses; list its host names in HEADWAY_ALLOWED_HOSTS",
)


def serve(
    *,
    app: Annotated[str | None, Parameter(name="--app")] = None,
    host: str | None = None,
    port: int | None = None,
    public_url: str | None = None,
) -> None:
    """Execute jobs, and serve the HTTP API and the web page, until Ctrl-C.

    Parameters
    ----------
    app
        The `Headway` with your jobs, as `module:name`. Without it, the server executes nothing, and
        serves the configured database. Default: HEADWAY_APP.
    host
        The address to listen on. Any address but loopback requires a token. Default: HEADWAY_HOST,
        or 127.0.0.1.
    port
        The port to listen on; 0 chooses a free one. Default: HEADWAY_PORT, or 8070.
    public_url
        The URL of the server for browsers, if it is behind a proxy. Default:
        HEADWAY_PUBLIC_URL, or the address to listen on.
    """
    # This handler stays installed until the exit: by default SIGUSR1 would end the process.
    signal.signal(signal.SIGUSR1, _log_reset_not_needed)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # This handler applies until the server runs. Then SIGHUP reloads the configuration.
        signal.signal(signal.SIGHUP, _ignore_hangup)
    raise_open_file_limit()
    run_process(_serve(app=app, host=host, port=port, public_url=public_url))


def _log_reset_not_needed(*_: object) -> None:
    """Log that SIGUSR1 has no effect: it resets only in-process lanes (R3.8).

    Durable lanes need no reset.
    """
    reason = {"reason": "expired leases free the slots of dead instances"}
    log_reason = partial(log.info, "reset_not_needed", extra=reason)
    with suppress(RuntimeError):  # There is no event loop before the start and after the end.
        asyncio.get_running_loop().call_soon_threadsafe(log_reason)


def _ignore_hangup(*_: object) -> None:
    """Ignore SIGHUP, so that it does not end a server that is starting or stopping."""


async def _serve(
    *, app: str | None, host: str | None, port: int | None, public_url: str | None
) -> None:
    settings = load_settings()
    access = Access(parse_tokens(settings))
    host = settings.host if host is None else host
    port = settings.port if port is None else port
    public_url = settings.public_url if public_url is None else public_url
    # Check the configuration before anything is opened or created.
    check_exposure(host, access)
    public_address = None if public_url is None else PublicAddress.parse(public_url)
    configure_logging(settings)
    warnings = [NO_TOKEN_WARNING] if access.is_open else []
    if is_any_address(host) and public_address is None and not settings.allowed_hosts:
        warnings.append(NO_ALLOWED_HOSTS_WARNING)

    def report_ready(address: str) -> None:
        if settings.log_format == "json":
            log.info("server_ready", extra={"address": address, "needs_token": not access.is_open})
            for event, sentence in warnings:
                log.warning(event, extra={"reason": sentence})
            return
        banner = Text.assemble("headway serves ", (address, "bold"), f"  (page: {address}/ui/)")
        lines = (banner, *(Text(sentence) for _, sentence in warnings))
        Console(stderr=True).print(Text("\n").join(lines), soft_wrap=True)

    app_to_serve = load_app(app)
    # Listen before any job starts: a server that is started twice must not execute anything.
    with open_listener(host, port) as listener:
        async with app_to_serve as hw, hw.reload_on_hangup():
            await serve_http(
                hw,
                listener=listener,
                host=host,
                port=port,
                access=access,
                allowed_hosts=settings.allowed_hosts,
                version=version("headway"),
                on_ready=report_ready,
                public_address=public_address,
            )


def parse_tokens(settings: Settings) -> list[Token]:
    """Return the configured tokens. Raise ConfigurationError if one is invalid."""
    full = settings.token
    tokens = [] if full is None else [Token(full.get_secret_value(), Scope.OPERATE)]
    for token in settings.tokens:
        holder, _, secret = token.get_secret_value().partition("=")
        scope_name, colon, name = holder.partition(":")
        is_name = TOKEN_NAME.fullmatch(name) if colon else True
        if scope_name.upper() not in Scope.__members__ or not is_name or not secret:
            scopes = ", ".join(scope.label for scope in Scope)
            raise ConfigurationError(
                "tokens must be given as scope=secret or scope:name=secret; the scope is one of"
                f" {scopes}, and the name has at most 40 letters, digits, _ and -"
            )
        tokens.append(Token(secret, Scope[scope_name.upper()], name))
    return tokens
