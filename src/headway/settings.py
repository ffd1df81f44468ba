"""Configuration, parsed and checked once: secrets of a container, `HEADWAY_*` variables, or
`headway.toml`, or nothing.

The names by which the first flow centre was configured are understood besides (R5.13).
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from headway.core.command.admin.set_lane import ConfigureLanes
from headway.core.errors import ConfigurationError, InvalidInput
from headway.core.ids import LaneName
from headway.core.timeouts import (
    COMPACTION_TIMEOUT_S,
    EXECUTION_TIMEOUT_S,
    LEASE_TTL_S,
    PERMISSION_TIMEOUT_S,
    SSE_PING_INTERVAL_S,
    Timeouts,
)

PREFIX: Final = "HEADWAY_"
FILE_NAME: Final = "headway.toml"
SECRETS_FOLDER: Final = Path("/run/secrets")
"""Where Docker and its like put secrets: a file for each, such as `headway_token`.

They win over variables, some of which an image sets for those who give nothing.
"""
# Read by our own tests and tools, not by the program.
IGNORED_PREFIXES: Final = (f"{PREFIX}TEST_",)
# As programs of the first flow centre are told; headway's own variables win over them.
LEGACY_VARIABLES: Final = {"url": "SCHEDULER_BASE", "database_url": "SCHEDULER_DB"}


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
    redis_url: str | None = None
    """Where instances tell each other what is new. Nothing configured: by the database alone."""

    data: str | None = None
    """Where runs keep their files. Nothing configured: `data` beside the SQLite file, or here."""

    mirror: bool = False
    """Whether every run's state is also written to a file, `runs/<run id>.json` in `data`."""

    app: str | None = None
    """Where the jobs are, as `module:name`: what `serve` serves, and what is submitted directly."""
    url: str | None = None
    """The server that commands talk to. Nothing configured: they use the database themselves."""
    host: str = "127.0.0.1"
    """Where the server listens; any address but loopback needs a token."""
    port: int = 8070
    token: str | None = None
    """What clients of the server must send, and what commands do send; it may do everything."""
    tokens: Annotated[tuple[str, ...], NoDecode] = ()
    """More, each as scope=secret or scope:name=secret (read, operate, worker), between blanks."""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Names by which the server may be called besides its own; separated by blanks."""
    public_url: str | None = None
    """Where browsers find the server when a proxy stands in front of it."""

    worker_networks: Annotated[tuple[str, ...], NoDecode] = ()
    """Where workers may be besides this host: networks such as 10.0.0.0/8, separated by blanks."""
    worker_token: str | None = None
    """What workers are told by who calls them; one that others than this host reach demands it."""

    execution_timeout_s: float = EXECUTION_TIMEOUT_S
    """How long a run may take if its job has no `timeout_s`."""
    permission_timeout_s: float = PERMISSION_TIMEOUT_S
    """How long a question to a person stays open if the job sets no time."""
    compaction_timeout_s: float = COMPACTION_TIMEOUT_S
    """How long one compaction of a run may take if the job sets no time."""
    lease_ttl_s: float = LEASE_TTL_S
    """How long a silent instance counts as alive. It renews its lease every third of that."""
    sse_ping_interval_s: float = SSE_PING_INTERVAL_S
    """How long an event stream may be silent before the server sends a ping."""
    lanes: Annotated[dict[LaneName, int], NoDecode] = {}
    """How many runs of a lane may run at once, by the lane's name; `main=5 cron=2` as a variable.

    It is applied at start and on reload. A limit that a person sets stays until this changes.
    """

    log_format: Literal["text", "json"] = "text"
    """How `serve` and `worker` log: lines for people, or a JSON object on each line."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is less than this is not logged."""

    @model_validator(mode="before")
    @classmethod
    def _split_lists(cls, values: dict[str, object]) -> dict[str, object]:
        split = {}
        for name in ("database_urls", "tokens", "allowed_hosts", "worker_networks"):
            given = values.get(name)
            if isinstance(given, str):
                split[name] = tuple(given.split())
        return values | split

    @field_validator("lanes", mode="before")
    @classmethod
    def _read_lanes(cls, given: object) -> object:
        limits = _parse_lanes(given) if isinstance(given, str) else given
        if not isinstance(limits, dict):
            raise ValueError("it should be a table of lanes and their limits")  # noqa: TRY004
        try:
            checked = ConfigureLanes(tuple(limits.items()))
        except InvalidInput as error:
            raise ValueError(str(error)) from None
        return dict(checked.limits)

    @property
    def timeouts(self) -> Timeouts:
        """Return the time limits. Raise InvalidInput if they do not fit together."""
        return Timeouts(
            execution_timeout_s=self.execution_timeout_s,
            permission_timeout_s=self.permission_timeout_s,
            lease_ttl_s=self.lease_ttl_s,
            compaction_timeout_s=self.compaction_timeout_s,
            sse_ping_interval_s=self.sse_ping_interval_s,
        )

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
        first = InitSettingsSource(settings_cls, init_kwargs=_read_legacy_variables())
        file = TomlConfigSettingsSource(settings_cls)
        secrets = InitSettingsSource(settings_cls, init_kwargs=_read_secrets())
        return init_settings, secrets, env_settings, first, file


def secret_file(name: str) -> Path | None:
    """Where the secret is that is this setting; None: there is none, or none of ours."""
    file = SECRETS_FOLDER / f"{PREFIX}{name}".lower()
    return file if os.path.isfile(file) else None  # It never raises.


def _read_secrets() -> dict[str, object]:
    said: dict[str, object] = {}
    for name in Settings.model_fields:
        file = secret_file(name)
        if file is not None:
            try:
                said[name] = file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"{file} cannot be read: {error}") from None
    # To say one of these two is to say that the other is not meant, wherever that was said.
    if "database_urls" in said:
        said.setdefault("database_url", None)
    elif "database_url" in said:
        said["database_urls"] = ()
    return said


def _read_legacy_variables() -> dict[str, str]:
    """`SCHEDULER_BASE` is a server's address, `SCHEDULER_DB` a SQLite file or a database's URL."""
    said = {name: os.environ.get(variable, "") for name, variable in LEGACY_VARIABLES.items()}
    if f"{PREFIX}DATABASE_URLS" in os.environ:
        said["database_url"] = ""
    elif said["database_url"] and "://" not in said["database_url"]:
        said["database_url"] = f"sqlite:///{said['database_url']}"
    return {name: value for name, value in said.items() if value}


def load_settings() -> Settings:
    """The settings, or ConfigurationError that names the variable or the key and what to do."""
    variables = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    for name in sorted(os.environ):
        if (
            name.startswith(PREFIX)
            and name not in variables
            and not name.startswith(IGNORED_PREFIXES)
        ):
            raise ConfigurationError(
                f"the environment variable {name} is unknown; known are {_join_sorted(variables)}"
            )
    try:
        settings = Settings()
    except ValidationError as error:
        raise ConfigurationError(_explain_error(error.errors()[0])) from None
    except ValueError as error:  # Not TOML at all.
        raise ConfigurationError(f"{FILE_NAME} cannot be read: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{FILE_NAME} cannot be read: {error.strerror}") from None
    if settings.database_url and settings.database_urls:
        raise ConfigurationError("both database_url and database_urls are set; keep one of them")
    try:
        _ = settings.timeouts
    except InvalidInput as error:
        raise ConfigurationError(f"{_setting_source(error.field)} {error.problem}") from None
    return settings


def _explain_error(fault: ErrorDetails) -> str:
    """What is wrong with a setting, and where it was set. Its value may be secret."""
    name = str(fault["loc"][0])
    if fault["type"] == "extra_forbidden":
        known = _join_sorted(Settings.model_fields)
        return f"{FILE_NAME} has the unknown key {name!r}; known are {known}"
    problem = fault["msg"].removeprefix("Value error, ").replace("Input", "it")
    return f"{_setting_source(name)} cannot be used: {problem}"


def _setting_source(name: str) -> str:
    """Return the source of a setting: a secret's file, a variable or the configuration file."""
    variable = f"{PREFIX}{name.upper()}"
    place = variable if variable in os.environ else f"{name} in {FILE_NAME}"
    return str(secret_file(name) or place)


def _parse_lanes(text: str) -> dict[str, int]:
    """Parse `main=5 cron=2`, the form of the environment variable."""
    limits: dict[str, int] = {}
    for word in text.split():
        name, _, limit = word.rpartition("=")
        if not name or not limit.isdecimal():
            raise ValueError(f"{word!r} should be a lane and its limit, such as main=5")
        if name in limits:
            raise ValueError(f"the lane {name!r} is named twice; keep one of them")
        limits[name] = int(limit)
    return limits


def _join_sorted(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
