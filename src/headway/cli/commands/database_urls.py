"""The database of commands that look into it themselves, and ask no server."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from headway.core.errors import ConfigurationError
from headway.settings import load_settings

AppOption = Annotated[
    str | None, Parameter(help="The `Headway` whose database it is, as `module:name`.")
]


def find_database_urls(command: str, app: str | None = None) -> Sequence[str]:
    """Its addresses: those of the `Headway` at `app` or HEADWAY_APP, or else of the settings.

    ConfigurationError when only a server is named, which keeps its own.
    """
    settings = load_settings()
    if app is not None or settings.app is not None:
        from headway.cli.load_app import load_app  # noqa: PLC0415 Slow to import.

        return load_app(app).urls
    is_named = settings.database_url or settings.database_urls
    if settings.url is not None and not is_named:
        raise ConfigurationError(
            f"headway {command} looks into a database itself, and HEADWAY_URL names a server;"
            " say where its database is with HEADWAY_DATABASE_URL"
        )
    return settings.urls
