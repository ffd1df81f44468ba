"""Where the jobs are: a `Headway` in a file of the user's."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from headway.app import Headway
from headway.core.errors import ConfigurationError
from headway.settings import load_settings


def load_app(place: str | None) -> Headway:
    """The Headway at `module:name`, or at HEADWAY_APP; without both one that has no jobs.

    ConfigurationError says what is not there.
    """
    place = place or load_settings().app
    if place is None:
        return Headway()
    said = f"--app {place!r}"
    module, name = module_at(place, said=said, example="jobs:hw")
    found = getattr(module, name, None)
    if not isinstance(found, Headway):
        there = [key for key, value in vars(module).items() if isinstance(value, Headway)]
        known = f"; it has {', '.join(there)}" if there else ""
        raise ConfigurationError(f"{said}: {name} is not a Headway there{known}")
    return found


def module_at(place: str, *, said: str, example: str) -> tuple[ModuleType, str]:
    """The module of `module:name` in this folder, and the name to look for in it.

    `said` is how the place was given: with it ConfigurationError begins.
    """
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise ConfigurationError(f"{said} must be module:name, such as {example}")
    if module_name.endswith(".py"):
        meant = module_name.removesuffix(".py").replace("/", ".")
        raise ConfigurationError(f"{said} must be {meant}:{name}, without .py")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(module_name), name
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # A module that theirs wants: its own words say which.
        raise ConfigurationError(f"{said}: there is no module {error.name!r}") from None
