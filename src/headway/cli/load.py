"""Where the jobs are: a `Headway` in a file of the user's."""

import importlib
import sys
from pathlib import Path

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
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise ConfigurationError(f"--app {place!r} must be module:name, such as jobs:hw")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # A module that theirs wants: its own words say which.
        raise ConfigurationError(f"--app {place!r}: there is no module {error.name!r}") from None
    found = getattr(module, name, None)
    if not isinstance(found, Headway):
        there = [key for key, value in vars(module).items() if isinstance(value, Headway)]
        known = f"; it has {', '.join(there)}" if there else ""
        raise ConfigurationError(f"--app {place!r}: {name} is not a Headway there{known}")
    return found
