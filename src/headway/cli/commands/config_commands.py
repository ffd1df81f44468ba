"""`headway config …`: show the settings and their sources, and reload them."""

import os
from typing import Any, Final
from urllib.parse import urlsplit

from headway.cli.client.open_client import open_client
from headway.cli.output.printing import AppOption, JsonOption, print_json, print_list, to_printable
from headway.log import HIDDEN
from headway.settings import (
    FILE_NAME,
    LEGACY_VARIABLES,
    PREFIX,
    Settings,
    load_settings,
    secret_file,
)

SECRET_NAMES: Final = frozenset({"token", "tokens", "worker_token"})
URL_NAMES: Final = frozenset({"database_url", "database_urls", "public_url", "redis_url", "url"})


async def show(*, json: JsonOption = False) -> None:
    """Show every setting, its value and its source. Secrets are not shown."""
    settings = load_settings()
    found = [
        {"name": name, "value": _value(name, settings), "source": _source(name, settings)}
        for name in Settings.model_fields
    ]
    headings = ("setting", "value", "source")
    print_list(found, headings, _columns, empty="", as_json=json)


async def reload(*, app: AppOption = None, json: JsonOption = False) -> None:
    """Make the server at HEADWAY_URL read its configuration again, and print the changes.

    Without a server, apply the limits of lanes that are configured here to the database.
    """
    async with open_client(app) as client:
        told = await client.post("/api/config/reload")
    if json:
        print_json(told)
        return
    for lane in told["lanes"]:
        limits = f"{lane['previous_limit']} -> {lane['max_concurrent']}"
        print(f"lane {to_printable(lane['name'])}: {limits}")
    if not told["lanes"]:
        print("no configured limit of a lane has changed")
    if told["restart_to_apply"]:
        print(f"restart to apply: {', '.join(told['restart_to_apply'])}")


def _columns(setting: dict[str, Any]) -> tuple[Any, ...]:
    return setting["name"], _format_value(setting["value"]), setting["source"]


def _format_value(value: Any) -> Any:
    """Return a value in the form of an environment variable."""
    match value:
        case list():
            return " ".join(value)
        case dict():
            return " ".join(f"{name}={limit}" for name, limit in value.items())
        case float():
            return f"{value:.15g}"
        case _:
            return value


def _value(name: str, settings: Settings) -> Any:
    value = getattr(settings, name)
    if name == "database_url" and not settings.database_urls:
        (value,) = settings.urls  # Also when nothing is said: it is what commands look into.
    if value is None or value in ((), {}):
        return None
    if name in SECRET_NAMES:
        return HIDDEN
    if isinstance(value, tuple):
        return [_redact(name, word) for word in value]
    return _redact(name, value) if isinstance(value, str) else value


def _redact(name: str, word: str) -> str:
    return _redact_url(word) if name in URL_NAMES else word


def _redact_url(address: str) -> str:
    """Of an address all but what might be secret; nothing at all of one that cannot be read."""
    try:
        parts = urlsplit(address)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return HIDDEN
    if parts.password is None and parts.username is None and not parts.query:
        return address
    user = "" if parts.username is None else f"{parts.username}:{HIDDEN}@"
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


def _source(name: str, settings: Settings) -> str:
    if (secret := secret_file(name)) is not None:
        return str(secret)
    if f"{PREFIX}{name.upper()}" in os.environ:
        return f"{PREFIX}{name.upper()}"
    if os.environ.get(LEGACY_VARIABLES.get(name, "")) and name in settings.model_fields_set:
        return LEGACY_VARIABLES[name]
    return FILE_NAME if name in settings.model_fields_set else "default"
