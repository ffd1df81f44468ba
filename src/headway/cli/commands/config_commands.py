"""`headway config …`: show the settings and their sources, and reload them."""

import os
from typing import Any, Final
from urllib.parse import urlsplit

from headway.cli.client.open_client import connected
from headway.cli.output.printing import App, Json, plain, print_json, print_list
from headway.log import HIDDEN
from headway.settings import FILE_NAME, FIRST_NAMES, PREFIX, Settings, load_settings, secret_file

SECRETS: Final = frozenset({"token", "tokens", "worker_token"})
ADDRESSES: Final = frozenset({"database_url", "database_urls", "public_url", "redis_url", "url"})


async def show(*, json: Json = False) -> None:
    """Show every setting, its value and its source. Secrets are not shown."""
    settings = load_settings()
    found = [
        {"name": name, "value": _value(name, settings), "source": _source(name, settings)}
        for name in Settings.model_fields
    ]
    headings = ("setting", "value", "source")
    print_list(found, headings, _columns, empty="", as_json=json)


async def reload(*, app: App = None, json: Json = False) -> None:
    """Make the server at HEADWAY_URL read its configuration again, and print the changes.

    Without a server, apply the limits of lanes that are configured here to the database.
    """
    async with connected(app) as client:
        told = await client.post("/api/config/reload")
    if json:
        print_json(told)
        return
    for lane in told["lanes"]:
        limits = f"{lane['previous_limit']} -> {lane['max_concurrent']}"
        print(f"lane {plain(lane['name'])}: {limits}")
    if not told["lanes"]:
        print("no configured limit of a lane has changed")
    if told["restart_to_apply"]:
        print(f"restart to apply: {', '.join(told['restart_to_apply'])}")


def _columns(setting: dict[str, Any]) -> tuple[Any, ...]:
    return setting["name"], _words(setting["value"]), setting["source"]


def _words(value: Any) -> Any:
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
    if name in SECRETS:
        return HIDDEN
    if isinstance(value, tuple):
        return [_shown(name, word) for word in value]
    return _shown(name, value) if isinstance(value, str) else value


def _shown(name: str, word: str) -> str:
    return _without_password(word) if name in ADDRESSES else word


def _without_password(address: str) -> str:
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
    if os.environ.get(FIRST_NAMES.get(name, "")) and name in settings.model_fields_set:
        return FIRST_NAMES[name]
    return FILE_NAME if name in settings.model_fields_set else "default"
