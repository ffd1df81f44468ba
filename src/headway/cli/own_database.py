"""The database of commands that look into it themselves, and ask no server."""

from collections.abc import Sequence

from headway.core.errors import ConfigurationError
from headway.settings import load_settings


def own_database(command: str) -> Sequence[str]:
    """Its addresses. ConfigurationError when only a server is named, which keeps its own."""
    settings = load_settings()
    is_named = settings.database_url or settings.database_urls or settings.app
    if settings.url is not None and not is_named:
        raise ConfigurationError(
            f"headway {command} looks into a database itself, and HEADWAY_URL names a server;"
            " say where its database is with HEADWAY_DATABASE_URL"
        )
    return settings.urls
