"""Finds the database of commands that use it directly and not through a server."""

from collections.abc import Sequence

from headway.core.errors import ConfigurationError
from headway.settings import load_settings


def find_database_urls(command: str, app: str | None = None) -> Sequence[str]:
    """Return the database URLs of the `Headway` at `app` or HEADWAY_APP, or of the settings.

    Raise ConfigurationError if the settings name only a server, whose database is not known here.
    """
    settings = load_settings()
    if app is not None or settings.app is not None:
        from headway.cli.load_app import load_app  # noqa: PLC0415 Slow to import.

        return load_app(app).urls
    has_database = settings.database_url or settings.database_urls
    if settings.url is not None and not has_database:
        raise ConfigurationError(
            f"headway {command} uses the database directly, but only HEADWAY_URL is set; set"
            " HEADWAY_DATABASE_URL to the database of that server"
        )
    return settings.urls
