"""Where the jobs are: a `Headway` in a file of the user's."""

import importlib
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

from headway.app import Headway
from headway.core.errors import ConfigurationError, Error
from headway.services.job_errors import describe_error
from headway.settings import load_settings

_NON_USER_PATHS: Final = (
    "<frozen ",
    str(Path(__file__).parents[1]),
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
"""How the names of files begin that the user has not written."""


def load_app(place: str | None) -> Headway:
    """The Headway at `module:name`, or at HEADWAY_APP; without both one that has no jobs.

    ConfigurationError says what is not there.
    """
    place = place or load_settings().app
    if place is None:
        return Headway()
    said = f"--app {place!r}"
    module, name = import_target(place, label=said, example="jobs:hw")
    found = getattr(module, name, None)
    if not isinstance(found, Headway):
        there = [key for key, value in vars(module).items() if isinstance(value, Headway)]
        known = f"; it has {', '.join(there)}" if there else ""
        raise ConfigurationError(f"{said}: {name} is not a Headway there{known}")
    return found


def import_target(place: str, *, label: str, example: str) -> tuple[ModuleType, str]:
    """The module of `module:name` in this folder, and the name to look for in it.

    `said` is how the place was given: with it ConfigurationError begins. If the module itself is
    at fault, its notes say where.
    """
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise ConfigurationError(f"{label} must be module:name, such as {example}")
    if module_name.endswith(".py"):
        meant = module_name.removesuffix(".py").replace("/", ".")
        raise ConfigurationError(f"{label} must be {meant}:{name}, without .py")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(module_name), name
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _to_configuration_error(label, error) from None  # A module that theirs wants.
        raise ConfigurationError(f"{label}: there is no module {error.name!r}") from None
    except Error:
        raise  # Their Headway cannot be made: a sentence of our own says why.
    except Exception as error:  # It is their program, which may do anything.
        raise _to_configuration_error(label, error) from None


def _to_configuration_error(said: str, error: Exception) -> ConfigurationError:
    """What is wrong, and as notes where: only what the user has written, not what leads to it."""
    fault = ConfigurationError(f"{said} cannot be imported: {describe_error(error)}")
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [one for one in frames if not one.filename.startswith(_NON_USER_PATHS)]
    if isinstance(error, SyntaxError):  # Its place is not yet a frame.
        lines = traceback.format_list(theirs) + traceback.format_exception_only(error)[:-1]
    else:  # Theirs may be installed, as others are: then at least where it went wrong.
        lines = traceback.format_list(theirs or frames[-1:])
    for line in lines:
        fault.add_note(line.rstrip())
    return fault
