"""`headway flow …`: check definitions, publish them, look at them, start tasks."""

import json as jsonlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from headway.cli.client.api_client import named
from headway.cli.client.open_client import connected
from headway.cli.output.printing import App, IdempotencyKey, Json, ago, print_json, print_list
from headway.core.errors import ConfigurationError, InvalidFlow, InvalidInput
from headway.core.flow.definition.definition import ErrorPolicy
from headway.core.flow.parse import read_flow

Fault = tuple[str, str]
OnConflict = Annotated[
    Literal["reject", "enqueue", "replace", "join"],
    Parameter(help="What to do when the key has an active run."),
]
Strict = Annotated[bool, Parameter(negative=(), help="Also refuse a definition that has warnings.")]
EXIT_FAULTY: Final = 1


def validate(file: Path, /, *, strict: Strict = False, json: Json = False) -> None:
    """Check a definition without a database; ends with 1 when it has faults.

    Parameters
    ----------
    file
        The definition, as JSON.
    """
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    try:
        warnings = read_flow(_read(file), default_policy=ErrorPolicy.FAIL).warnings
    except InvalidFlow as error:
        faults = error.faults
    if strict:
        faults, warnings = (*faults, *warnings), ()
    if json:
        print_json({"faults": _listed(faults), "warnings": _listed(warnings)})
    else:
        for place, problem in faults:
            print(f"fault    {place}: {problem}")
        _warn(_listed(warnings))
        if not faults:
            print("good")
    if faults:
        sys.exit(EXIT_FAULTY)


async def push(
    name: str, file: Path, /, *, strict: Strict = False, app: App = None, json: Json = False
) -> None:
    """Publish a definition as the newest version of a flow.

    Parameters
    ----------
    name
        The flow.
    file
        The definition, as JSON.
    """
    definition = _read(file).encode()
    async with connected(app) as client:
        query = "?strict=true" if strict else ""
        made = await client.put(f"/api/flows/{named(name)}{query}", definition)
    if json:
        print_json(made)
        return
    _warn(made["warnings"])
    print(f"{made['name']} version {made['version']}" + ("" if made["is_new"] else " (as it was)"))


async def list_(*, app: App = None, json: Json = False) -> None:
    """List the flows, by name."""
    async with connected(app) as client:
        found = await client.listed("/api/flows", "flows")
    headings = ("flow", "version", "published")
    print_list(found, headings, _columns, empty="there are no flows", as_json=json)


def _columns(flow: Any) -> tuple[Any, ...]:
    return (flow["name"], flow["version"], f"{ago(flow['updated_at'])} ago")


async def show(
    name: str, /, *, version: int | None = None, app: App = None, json: Json = False
) -> None:
    """Print the definition of a flow.

    Parameters
    ----------
    name
        The flow.
    version
        Another version than the published one.
    """
    async with connected(app) as client:
        found = await client.get(f"/api/flows/{named(name)}", version=version)
    if json:
        print_json(found)
        return
    print(jsonlib.dumps(found["definition"], indent=2, ensure_ascii=False))


async def graph(
    name: str, /, *, version: int | None = None, app: App = None, json: Json = False
) -> None:
    """Print a Mermaid diagram of a flow.

    Parameters
    ----------
    name
        The flow.
    version
        Another version than the published one.
    """
    async with connected(app) as client:
        drawn = await client.text(f"/api/flows/{named(name)}/graph", version=version)
    print_json({"name": name, "version": version, "mermaid": drawn}) if json else print(drawn)


async def start(
    name: str,
    /,
    *,
    params: str = "{}",
    key: str | None = None,
    version: int | None = None,
    on_conflict: OnConflict = "reject",
    idempotency_key: IdempotencyKey = None,
    app: App = None,
    json: Json = False,
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
    wanted = {"params": given, "key": key, "version": version, "on_conflict": on_conflict}
    async with connected(app) as client:
        path = f"/api/flows/{named(name)}/tasks"
        task = await client.start(path, wanted, idempotency_key=idempotency_key)
    print_json(task) if json else print(task["id"])


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


def _listed(faults: Iterable[Fault]) -> list[dict[str, str]]:
    return [{"place": place, "problem": problem} for place, problem in faults]


def _warn(warnings: Iterable[dict[str, str]]) -> None:
    for warning in warnings:
        print(f"warning  {warning['place']}: {warning['problem']}")
