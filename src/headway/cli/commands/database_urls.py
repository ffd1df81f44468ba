"""Finds the database for commands that use it directly instead of through a server."""

from collections.abc import Sequence

from headway.core.errors import ConfigurationError
from headway.settings import load_settings


def find_database_urls(command: str, app: str | None = None) -> Sequence[str]:
    """Return the URLs of the database that a command uses directly.

    They are the URLs of the `Headway` at `app` or at HEADWAY_APP, or else those in the settings.
    Raise ConfigurationError if the settings contain only the URL of a server, because its database
    is not known here.
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
