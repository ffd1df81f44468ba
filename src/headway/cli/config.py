"""`headway config show`: what is configured, and where that was said."""

import os
from typing import Any, Final
from urllib.parse import urlsplit

from headway.cli.show import Json, print_list
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


def _columns(setting: dict[str, Any]) -> tuple[Any, ...]:
    value = setting["value"]
    words = " ".join(value) if isinstance(value, list) else value  # As a variable would have them.
    return setting["name"], words, setting["source"]


def _value(name: str, settings: Settings) -> str | int | list[str] | None:
    value = getattr(settings, name)
    if name == "database_url" and not settings.database_urls:
        (value,) = settings.urls  # Also when nothing is said: it is what commands look into.
    if value is None or value == ():
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
