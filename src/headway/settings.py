"""The settings of a process, parsed and validated once.

A setting is taken from the first source that has it: a secret file of the container, a `HEADWAY_*`
environment variable, a legacy variable of the first flow center (R5.13), `headway.toml`, or its
default.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from headway.core.command.admin.lane_limits import ConfigureLanes
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
"""The folder in which Docker mounts secrets, one file per secret, such as `headway_token`.

Secrets override environment variables, because an image sets some variables as defaults.
"""
# Variables for headway's tests and tools. The program does not read them.
IGNORED_PREFIXES: Final = (f"{PREFIX}TEST_",)
# Variables of the first flow center. The HEADWAY_* variables override them.
LEGACY_VARIABLES: Final = {"url": "SCHEDULER_BASE", "database_url": "SCHEDULER_DB"}


class Settings(BaseSettings):
    """The settings of a process. `repr` and logs never show a field of type `SecretStr`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, toml_file=FILE_NAME, extra="forbid", frozen=True
    )

    database_url: str | None = None
    """The database that stores runs. Default: the SQLite file headway.db in the current folder."""
    database_urls: Annotated[tuple[str, ...], NoDecode] = ()
    """Several addresses of one cluster, the primary first, separated by spaces."""
    durability: Literal["process", "power"] = "process"
    """The failures that a commit on SQLite survives: only a process crash, or also a power cut."""
    redis_url: str | None = None
    """The Redis server over which instances exchange hints. Default: they poll the database."""

    data: str | None = None
    """The folder for the files of runs.

    Default: `data` next to the SQLite file, or in the current folder.
    """

    mirror: bool = False
    """Also write the state of every run to `runs/<run id>.json` in `data`."""

    app: str | None = None
    """The Headway that `serve` and commands without a server use, as `module:name`."""
    url: str | None = None
    """The server that commands use. Default: commands open the database themselves."""
    host: str = "127.0.0.1"
    """The address on which the server listens. Any address but loopback requires a token."""
    port: int = 8070
    token: SecretStr | None = None
    """The token with full access. The server requires it, and commands send it."""
    tokens: Annotated[tuple[SecretStr, ...], NoDecode] = ()
    """More tokens, separated by spaces, each as `scope=secret` or `scope:name=secret`.

    The scope is `read`, `operate` or `worker`.
    """
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """More host names under which requests may reach the server, separated by spaces."""
    public_url: str | None = None
    """The address of the server as browsers use it, if a proxy is in front of it."""

    worker_networks: Annotated[tuple[str, ...], NoDecode] = ()
    """Networks in addition to this host that may contain workers, such as 10.0.0.0/8."""
    worker_token: SecretStr | None = None
    """Shared secret sent to workers. Required if a worker is reachable from other hosts."""

    execution_timeout_s: float = EXECUTION_TIMEOUT_S
    """How long a run may take if its job has no `timeout_s`."""
    permission_timeout_s: float = PERMISSION_TIMEOUT_S
    """How long an interrupt stays open if the job sets no time limit."""
    compaction_timeout_s: float = COMPACTION_TIMEOUT_S
    """How long one compaction of a run may take if the job sets no time limit."""
    lease_ttl_s: float = LEASE_TTL_S
    """How long an instance counts as alive without a renewal of its lease.

    The instance renews the lease every third of that time.
    """
    sse_ping_interval_s: float = SSE_PING_INTERVAL_S
    """How long an event stream may be idle before the server sends a ping."""
    lanes: Annotated[dict[LaneName, int], NoDecode] = {}
    """How many runs of each lane may run at once. As an environment variable: `main=5 cron=2`.

    Applied at start and on reload. A limit that a person sets stays until this setting changes.
    """

    log_format: Literal["text", "json"] = "text"
    """The format in which `serve` and `worker` log: text, or one JSON object per line."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""

    @model_validator(mode="before")
    @classmethod
    def _split_lists(cls, values: dict[str, object]) -> dict[str, object]:
        split = {}
        for name in ("database_urls", "tokens", "allowed_hosts", "worker_networks"):
            value = values.get(name)
            if isinstance(value, str):
                split[name] = tuple(value.split())
        return values | split

    @field_validator("lanes", mode="before")
    @classmethod
    def _read_lanes(cls, value: object) -> object:
        limits = _parse_lanes(value) if isinstance(value, str) else value
        if not isinstance(limits, dict):
            raise ValueError("it should be a table of lanes and their limits")  # noqa: TRY004
        try:
            return check_lane_limits(limits)
        except InvalidInput as error:
            raise ValueError(str(error)) from None

    @property
    def timeouts(self) -> Timeouts:
        """Return the time limits. Raise InvalidInput if one is invalid or contradicts another."""
        return Timeouts(
            execution_timeout_s=self.execution_timeout_s,
            permission_timeout_s=self.permission_timeout_s,
            lease_ttl_s=self.lease_ttl_s,
            compaction_timeout_s=self.compaction_timeout_s,
            sse_ping_interval_s=self.sse_ping_interval_s,
        )

    def merge_timeouts(self, **arguments: float | None) -> Timeouts:
        """Return the time limits. An argument that is None is replaced by its setting."""
        given = {name: seconds for name, seconds in arguments.items() if seconds is not None}
        return Timeouts(**asdict(self.timeouts) | given)

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of the database, with the default applied."""
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
        legacy = InitSettingsSource(settings_cls, init_kwargs=_read_legacy_variables())
        file = TomlConfigSettingsSource(settings_cls)
        secrets = InitSettingsSource(settings_cls, init_kwargs=_read_secrets())
        return init_settings, secrets, env_settings, legacy, file


def check_lane_limits(limits: Mapping[str, int]) -> dict[LaneName, int]:
    """Return the limits by trimmed lane name. Raise InvalidInput if a name or limit is invalid."""
    pairs = tuple((LaneName(name), limit) for name, limit in limits.items())
    return dict(ConfigureLanes(pairs).limits)


def secret_file(name: str) -> Path | None:
    """Return the container's secret file for a setting. Return None if there is no such file."""
    file = SECRETS_FOLDER / f"{PREFIX}{name}".lower()
    return file if os.path.isfile(file) else None  # Unlike Path.is_file, this never raises.


def _read_secrets() -> dict[str, object]:
    values: dict[str, object] = {}
    for name in Settings.model_fields:
        file = secret_file(name)
        if file is not None:
            try:
                values[name] = file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"{file} cannot be read: {error}") from None
    # If one of these two settings has a secret file, ignore the other setting in other sources.
    if "database_urls" in values:
        values.setdefault("database_url", None)
    elif "database_url" in values:
        values["database_urls"] = ()
    return values


def _read_legacy_variables() -> dict[str, str]:
    """Read SCHEDULER_BASE (a server address) and SCHEDULER_DB (a SQLite file or a URL)."""
    values = {name: os.environ.get(variable, "") for name, variable in LEGACY_VARIABLES.items()}
    if f"{PREFIX}DATABASE_URLS" in os.environ:
        values["database_url"] = ""
    elif values["database_url"] and "://" not in values["database_url"]:
        values["database_url"] = f"sqlite:///{values['database_url']}"
    return {name: value for name, value in values.items() if value}


def load_settings() -> Settings:
    """Return the settings of this process.

    Raise ConfigurationError if a source is invalid. The error names the variable, file or key.
    """
    variables = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    for name in sorted(os.environ):
        if (
            name.startswith(PREFIX)
            and name not in variables
            and not name.startswith(IGNORED_PREFIXES)
        ):
            raise ConfigurationError(
                f"the environment variable {name} is unknown; known variables:"
                f" {_join_sorted(variables)}"
            )
    try:
        settings = Settings()
    except ValidationError as error:
        raise ConfigurationError(_explain_error(error.errors()[0])) from None
    except ValueError as error:  # The file is not valid TOML.
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


def _explain_error(details: ErrorDetails) -> str:
    """Describe an invalid setting and its source. The value is left out: it may be secret."""
    name = str(details["loc"][0])
    if details["type"] == "extra_forbidden":
        known = _join_sorted(Settings.model_fields)
        return f"{FILE_NAME} has the unknown key {name!r}; known keys: {known}"
    problem = details["msg"].removeprefix("Value error, ").replace("Input", "it")
    return f"{_setting_source(name)} is invalid: {problem}"


def _setting_source(name: str) -> str:
    """Return the source of a setting: a secret file, a variable or the configuration file."""
    variable = f"{PREFIX}{name.upper()}"
    source = variable if variable in os.environ else f"{name} in {FILE_NAME}"
    return str(secret_file(name) or source)


def _parse_lanes(text: str) -> dict[str, int]:
    """Parse `main=5 cron=2`, the form of the environment variable."""
    limits: dict[str, int] = {}
    for item in text.split():
        name, _, limit = item.rpartition("=")
        if not name or not limit.isdecimal():
            raise ValueError(f"{item!r} should be a lane and its limit, such as main=5")
        if name in limits:
            raise ValueError(f"the lane {name!r} is named twice; keep one of them")
        limits[name] = int(limit)
    return limits


def _join_sorted(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
