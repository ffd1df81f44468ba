"""`headway flow …`: check definitions, publish them, look at them, start tasks."""

import json as jsonlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from headway.cli.client.api_client import quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.output.printing import (
    AppOption,
    IdempotencyKeyOption,
    JsonOption,
    format_age,
    print_json,
    print_list,
)
from headway.core.errors import ConfigurationError, InvalidFlow, InvalidInput
from headway.core.flow.definition.definition import ErrorPolicy
from headway.core.flow.parse import parse_flow

FlowProblem = tuple[str, str]
OnConflictOption = Annotated[
    Literal["reject", "enqueue", "replace", "join"],
    Parameter(help="What to do when the key has an active run."),
]
StrictOption = Annotated[
    bool, Parameter(negative=(), help="Also refuse a definition that has warnings.")
]
EXIT_INVALID_FLOW: Final = 1


def validate(file: Path, /, *, strict: StrictOption = False, json: JsonOption = False) -> None:
    """Check a definition without a database; ends with 1 when it has faults.

    Parameters
    ----------
    file
        The definition, as JSON.
    """
    faults: tuple[FlowProblem, ...] = ()
    warnings: tuple[FlowProblem, ...] = ()
    try:
        warnings = parse_flow(_read_file(file), default_policy=ErrorPolicy.FAIL).warnings
    except InvalidFlow as error:
        faults = error.errors
    if strict:
        faults, warnings = (*faults, *warnings), ()
    if json:
        print_json({"faults": _to_json(faults), "warnings": _to_json(warnings)})
    else:
        for place, problem in faults:
            print(f"fault    {place}: {problem}")
        _print_warnings(_to_json(warnings))
        if not faults:
            print("good")
    if faults:
        sys.exit(EXIT_INVALID_FLOW)


async def push(
    name: str,
    file: Path,
    /,
    *,
    strict: StrictOption = False,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Publish a definition as the newest version of a flow.

    Parameters
    ----------
    name
        The flow.
    file
        The definition, as JSON.
    """
    definition = _read_file(file).encode()
    async with open_client(app) as client:
        query = "?strict=true" if strict else ""
        made = await client.put(f"/api/flows/{quote_segment(name)}{query}", definition)
    if json:
        print_json(made)
        return
    _print_warnings(made["warnings"])
    print(f"{made['name']} version {made['version']}" + ("" if made["is_new"] else " (as it was)"))


async def list_(*, app: AppOption = None, json: JsonOption = False) -> None:
    """List the flows, by name."""
    async with open_client(app) as client:
        found = await client.list_all("/api/flows", "flows")
    headings = ("flow", "version", "published")
    print_list(found, headings, _columns, empty="there are no flows", as_json=json)


def _columns(flow: Any) -> tuple[Any, ...]:
    return (flow["name"], flow["version"], f"{format_age(flow['updated_at'])} ago")


async def show(
    name: str, /, *, version: int | None = None, app: AppOption = None, json: JsonOption = False
) -> None:
    """Print the definition of a flow.

    Parameters
    ----------
    name
        The flow.
    version
        Another version than the published one.
    """
    async with open_client(app) as client:
        found = await client.get(f"/api/flows/{quote_segment(name)}", version=version)
    if json:
        print_json(found)
        return
    print(jsonlib.dumps(found["definition"], indent=2, ensure_ascii=False))


async def graph(
    name: str, /, *, version: int | None = None, app: AppOption = None, json: JsonOption = False
) -> None:
    """Print a Mermaid diagram of a flow.

    Parameters
    ----------
    name
        The flow.
    version
        Another version than the published one.
    """
    async with open_client(app) as client:
        drawn = await client.get_text(f"/api/flows/{quote_segment(name)}/graph", version=version)
    print_json({"name": name, "version": version, "mermaid": drawn}) if json else print(drawn)


async def start(
    name: str,
    /,
    *,
    params: str = "{}",
    key: str | None = None,
    version: int | None = None,
    on_conflict: OnConflictOption = "reject",
    idempotency_key: IdempotencyKeyOption = None,
    app: AppOption = None,
    json: JsonOption = False,
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
    given = parse_json(params, field="--params")
    if not isinstance(given, dict):
        raise InvalidInput("--params", "must be a JSON object")
    wanted = {"params": given, "key": key, "version": version, "on_conflict": on_conflict}
    async with open_client(app) as client:
        path = f"/api/flows/{quote_segment(name)}/tasks"
        task = await client.start(path, wanted, idempotency_key=idempotency_key)
    print_json(task) if json else print(task["id"])


def parse_json(text: str, *, field: str) -> Any:
    try:
        return jsonlib.loads(text)
    except ValueError as error:
        raise InvalidInput(field, f"is not JSON: {error}") from None


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None


def _to_json(faults: Iterable[FlowProblem]) -> list[dict[str, str]]:
    return [{"place": place, "problem": problem} for place, problem in faults]


def _print_warnings(warnings: Iterable[dict[str, str]]) -> None:
    for warning in warnings:
        print(f"warning  {warning['place']}: {warning['problem']}")
