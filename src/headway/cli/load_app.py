"""Loads the `Headway` with the user's jobs from a module of the user's program."""

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
"""Prefixes of the paths of files that the user has not written."""


def load_app(target: str | None) -> Headway:
    """Return the Headway at `target` (`module:name`), or at HEADWAY_APP if `target` is None.

    Return a Headway without jobs if neither is set. Raise ConfigurationError if there is no Headway
    at that target.
    """
    target = target or load_settings().app
    if target is None:
        return Headway()
    label = f"--app {target!r}"
    module, name = import_target(target, label=label, example="jobs:hw")
    hw = getattr(module, name, None)
    if not isinstance(hw, Headway):
        names = [key for key, value in vars(module).items() if isinstance(value, Headway)]
        hint = f"; the module has: {', '.join(names)}" if names else ""
        raise ConfigurationError(f"{label}: {name} is not a Headway{hint}")
    return hw


def import_target(target: str, *, label: str, example: str) -> tuple[ModuleType, str]:
    """Import the module of `module:name` from the current folder, and return it with the name.

    Raise ConfigurationError if that fails. Its message begins with `label`. If the module itself
    raised an error, the notes contain the lines of the user's code that raised it.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise ConfigurationError(f"{label} must be module:name, such as {example}")
    if module_name.endswith(".py"):
        dotted_name = module_name.removesuffix(".py").replace("/", ".")
        raise ConfigurationError(f"{label} must be {dotted_name}:{name}, without .py")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(module_name), name
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            # A module that the user's module imports is missing.
            raise _to_configuration_error(label, error) from None
        raise ConfigurationError(f"{label}: there is no module {error.name!r}") from None
    except Error:
        raise  # The user's Headway is invalid, and the error of headway explains why.
    except Exception as error:  # The user's module may raise anything.
        raise _to_configuration_error(label, error) from None


def _to_configuration_error(label: str, error: Exception) -> ConfigurationError:
    """Convert an error of the user's module. The notes contain only frames of the user's code."""
    converted = ConfigurationError(f"{label} cannot be imported: {describe_error(error)}")
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if not frame.filename.startswith(_NON_USER_PATHS)]
    if isinstance(error, SyntaxError):  # The line with the syntax error is not in a frame.
        lines = traceback.format_list(user_frames) + traceback.format_exception_only(error)[:-1]
    else:  # An installed module of the user has no user frames: then show the last frame.
        lines = traceback.format_list(user_frames or frames[-1:])
    for line in lines:
        converted.add_note(line.rstrip())
    return converted
