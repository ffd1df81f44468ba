"""`headway flow …`: flows in this database."""

import json as jsonlib
import sys
from pathlib import Path
from typing import Any

from headway.bootstrap import opened_flows
from headway.core.errors import ConfigurationError, InvalidFlow, InvalidInput
from headway.core.flow.parse import read_flow
from headway.settings import load_settings

EXIT_FAULTY = 1


def validate(file: Path, /, *, json: bool = False) -> None:
    """Check a definition without a database; ends with 1 when it has faults.

    Parameters
    ----------
    file
        The definition, as JSON.
    json
        Print one JSON object instead of lines.
    """
    faults: tuple[tuple[str, str], ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    try:
        warnings = read_flow(_read(file)).warnings
    except InvalidFlow as error:
        faults = error.faults
    if json:
        print(jsonlib.dumps({"faults": _listed(faults), "warnings": _listed(warnings)}))
    else:
        for place, problem in faults:
            print(f"fault    {place}: {problem}")
        for place, problem in warnings:
            print(f"warning  {place}: {problem}")
        if not faults:
            print("good")
    if faults:
        sys.exit(EXIT_FAULTY)


async def push(name: str, file: Path, /, *, json: bool = False) -> None:
    """Publish a definition as the newest version of a flow.

    Parameters
    ----------
    name
        The flow.
    file
        The definition, as JSON.
    json
        Print one JSON object instead of lines.
    """
    async with opened_flows(load_settings().urls) as flows:
        made = await flows.publish(name, _read(file))
    if json:
        told = {"name": made.name, "version": made.version, "is_new": made.is_new}
        print(jsonlib.dumps(told | {"warnings": _listed(made.warnings)}))
        return
    for place, problem in made.warnings:
        print(f"warning  {place}: {problem}")
    print(f"{made.name} version {made.version}" + ("" if made.is_new else " (as it was)"))


async def list_flows(*, json: bool = False) -> None:
    """The flows, by name.

    Parameters
    ----------
    json
        Print one JSON object for each.
    """
    async with opened_flows(load_settings().urls) as flows:
        found = await flows.list(limit=1_000)
    for flow in found:
        if json:
            print(jsonlib.dumps({"name": flow.name, "version": flow.published, "id": flow.id}))
        else:
            print(f"{flow.name}  version {flow.published}")


async def show(name: str, /, *, version: int | None = None) -> None:
    """Print the definition of a flow.

    Parameters
    ----------
    name
        The flow.
    version
        Another version than the published one.
    """
    async with opened_flows(load_settings().urls) as flows:
        found = await flows.version(name, version)
    print(jsonlib.dumps(jsonlib.loads(found.definition), indent=2, ensure_ascii=False))


async def graph(name: str, /, *, version: int | None = None) -> None:
    """Print a Mermaid diagram of a flow.

    Parameters
    ----------
    name
        The flow.
    version
        Another version than the published one.
    """
    async with opened_flows(load_settings().urls) as flows:
        print(await flows.graph(name, version))


async def start(
    name: str, /, *, params: str = "{}", key: str | None = None, version: int | None = None
) -> None:
    """Start a task, and print its id. A program that is open on the database drives it.

    Parameters
    ----------
    name
        The flow.
    params
        Its parameters, as a JSON object.
    key
        What must be serial; without one, the task is its own.
    version
        Another version than the published one.
    """
    given = parsed(params, place="--params")
    if not isinstance(given, dict):
        raise InvalidInput("--params", "must be a JSON object")
    async with opened_flows(load_settings().urls) as flows:
        run = await flows.start(name, params=given, key=key, version=version)
    print(run.id)


def parsed(text: str, *, place: str) -> Any:
    try:
        return jsonlib.loads(text)
    except ValueError as error:
        raise InvalidInput(place, f"is not JSON: {error}") from None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None


def _listed(faults: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [{"place": place, "problem": problem} for place, problem in faults]
