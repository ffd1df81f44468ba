"""`headway config …`: show the settings and their sources, and reload them."""

import os
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from headway.cli.client.open_client import open_client
from headway.cli.options import AppOption, JsonOption
from headway.cli.output.printing import print_json, print_list, to_printable
from headway.log import HIDDEN
from headway.settings import (
    FILE_NAME,
    LEGACY_VARIABLES,
    PREFIX,
    Settings,
    load_settings,
    secret_file,
)

URL_NAMES: Final = frozenset({"database_url", "database_urls", "public_url", "redis_url", "url"})


async def show(*, json: JsonOption = False) -> None:
    """Show every setting, its value and its source. Secrets are hidden."""
    settings = load_settings()
    rows = [
        {"name": name, "value": _value(name, settings), "source": _source(name, settings)}
        for name in Settings.model_fields
    ]
    headings = ("setting", "value", "source")
    print_list(rows, headings, _columns, empty="", as_json=json)


async def reload(*, app: AppOption = None, json: JsonOption = False) -> None:
    """Make the server read its configuration again, and print the changes."""
    async with open_client(app) as client:
        result = await client.post("/api/config/reload")
    if json:
        print_json(result)
        return
    for lane in result["lanes"]:
        limits = f"{lane['previous_limit']} -> {lane['max_concurrent']}"
        print(f"lane {to_printable(lane['name'])}: {limits}")
    if not result["lanes"]:
        print("no lane limits have changed")
    if result["restart_to_apply"]:
        print(f"restart to apply: {', '.join(result['restart_to_apply'])}")


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
        (value,) = settings.urls  # Show the default database, too: it is what commands use.
    if value is None or value in ((), {}):
        return None
    if _is_secret(value):
        return HIDDEN
    if isinstance(value, tuple):
        return [_redact(name, item) for item in value]
    return _redact(name, value) if isinstance(value, str) else value


def _is_secret(value: object) -> bool:
    if isinstance(value, tuple):
        return any(isinstance(item, SecretStr) for item in value)
    return isinstance(value, SecretStr)


def _redact(name: str, text: str) -> str:
    return _redact_url(text) if name in URL_NAMES else text


def _redact_url(url: str) -> str:
    """Hide the password and the query of a URL, or the whole URL if it cannot be parsed."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return HIDDEN
    if parts.password is None and parts.username is None and not parts.query:
        return url
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
