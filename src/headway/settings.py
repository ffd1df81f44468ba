"""Configuration, parsed and checked once: `HEADWAY_*` variables, or `headway.toml`, or nothing."""

import os
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from headway.core.errors import ConfigurationError

PREFIX: Final = "HEADWAY_"
FILE_NAME: Final = "headway.toml"
# Read by our own tests and tools, not by the program.
OTHERS: Final = (f"{PREFIX}TEST_",)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, toml_file=FILE_NAME, extra="forbid", frozen=True
    )

    database_url: str | None = None
    """Where runs are kept. Nothing configured: `headway.db` in this folder."""
    database_urls: Annotated[tuple[str, ...], NoDecode] = ()
    """Several addresses of one cluster, the primary first; separated by blanks."""
    durability: Literal["process", "power"] = "process"
    """What a commit survives on SQLite: the end of the process, or also a power cut."""

    @model_validator(mode="before")
    @classmethod
    def _split_urls(cls, values: dict[str, object]) -> dict[str, object]:
        urls = values.get("database_urls")
        return values | {"database_urls": tuple(urls.split())} if isinstance(urls, str) else values

    @property
    def urls(self) -> tuple[str, ...]:
        return self.database_urls or (self.database_url or "sqlite:///headway.db",)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_settings() -> Settings:
    """The settings, or ConfigurationError that names the variable or the line and what to do."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    unknown = sorted(
        name
        for name in os.environ
        if name.startswith(PREFIX) and name not in known and not name.startswith(OTHERS)
    )
    if unknown:
        raise ConfigurationError(
            f"the environment variable {unknown[0]} is unknown; "
            f"known are {', '.join(sorted(known))}"
        )
    try:
        settings = Settings()
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "settings"
        raise ConfigurationError(f"{place}: {first['msg']} ({PREFIX}* or {FILE_NAME})") from None
    except ValueError as error:  # Not TOML at all.
        raise ConfigurationError(f"{Path(FILE_NAME)} cannot be read: {error}") from None
    if settings.database_url and settings.database_urls:
        raise ConfigurationError("set database_url or database_urls, not both")
    return settings
