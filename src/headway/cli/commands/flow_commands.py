"""`headway flow …`: check, publish and show definitions, and start tasks."""

import json as jsonlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from headway.cli.client.api_client import quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.options import (
    AppOption,
    FlowArgument,
    IdempotencyKeyOption,
    JsonOption,
    VersionOption,
)
from headway.cli.output.printing import format_age, print_json, print_list, print_result
from headway.core.errors import ConfigurationError, InvalidFlow, InvalidInput, format_problem
from headway.core.flow.definition.definition import ErrorPolicy
from headway.core.flow.parse import parse_flow
from headway.core.run.admission import TASK_POLICIES, OnConflict

FlowProblem = tuple[str, str]
OnConflictOption = Annotated[
    OnConflict,
    Parameter(
        show_choices=False,
        help=f"What to do if the key has an active run: {', '.join(TASK_POLICIES)}.",
    ),
]
FileArgument = Annotated[Path, Parameter(help="A file with the definition, as JSON.")]
StrictOption = Annotated[
    bool,
    Parameter(negative=(), show_default=False, help="Treat warnings as errors."),
]
EXIT_INVALID_FLOW: Final = 1


def validate(
    file: FileArgument, /, *, strict: StrictOption = False, json: JsonOption = False
) -> None:
    """Check a definition without a database. Exit with 1 if it has errors."""
    errors: tuple[FlowProblem, ...] = ()
    warnings: tuple[FlowProblem, ...] = ()
    try:
        warnings = parse_flow(_read_file(file), default_policy=ErrorPolicy.FAIL).warnings
    except InvalidFlow as error:
        errors = error.errors
    if strict:
        errors, warnings = (*errors, *warnings), ()
    if json:
        print_json({"errors": _to_json(errors), "warnings": _to_json(warnings)})
    else:
        for path, problem in errors:
            print(f"error    {format_problem(path, problem)}")
        _print_warnings(_to_json(warnings))
        if not errors:
            print("valid")
    if errors:
        sys.exit(EXIT_INVALID_FLOW)


async def push(
    name: FlowArgument,
    file: FileArgument,
    /,
    *,
    strict: StrictOption = False,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Publish a definition as the newest version of a flow."""
    definition = _read_file(file).encode()
    async with open_client(app) as client:
        query = "?strict=true" if strict else ""
        published = await client.put(f"/api/flows/{quote_segment(name)}{query}", definition)
    if json:
        print_json(published)
        return
    _print_warnings(published["warnings"])
    suffix = "" if published["is_new"] else " (unchanged)"
    print(f"{published['name']} version {published['version']}{suffix}")


async def list_(*, app: AppOption = None, json: JsonOption = False) -> None:
    """List the flows by name."""
    async with open_client(app) as client:
        flows = await client.list_all("/api/flows", "flows")
    headings = ("flow", "version", "published")
    print_list(flows, headings, _columns, empty="no flows are published", as_json=json)


def _columns(flow: Any) -> tuple[Any, ...]:
    return (flow["name"], flow["version"], f"{format_age(flow['updated_at'])} ago")


async def show(
    name: FlowArgument,
    /,
    *,
    version: VersionOption = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Print the definition of a flow."""
    async with open_client(app) as client:
        flow = await client.get(f"/api/flows/{quote_segment(name)}", version=version)
    definition = jsonlib.dumps(flow["definition"], indent=2, ensure_ascii=False)
    print_result(flow, definition, as_json=json)


async def graph(
    name: FlowArgument,
    /,
    *,
    version: VersionOption = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Print a Mermaid diagram of a flow."""
    async with open_client(app) as client:
        mermaid = await client.get_text(f"/api/flows/{quote_segment(name)}/graph", version=version)
    print_result({"name": name, "version": version, "mermaid": mermaid}, mermaid, as_json=json)


async def start(
    name: FlowArgument,
    /,
    *,
    params: str = "{}",
    key: str | None = None,
    version: VersionOption = None,
    on_conflict: OnConflictOption = OnConflict.REJECT,
    idempotency_key: IdempotencyKeyOption = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Start a task of a flow, and print the id of the task.

    Parameters
    ----------
    params
        The parameters of the task, as a JSON object.
    key
        The key of the task. At most one run per key is active. Default: a key of its own.
    """
    parsed_params = parse_json(params, field="--params")
    if not isinstance(parsed_params, dict):
        raise InvalidInput("--params", "must be a JSON object")
    body = {"params": parsed_params, "key": key, "version": version, "on_conflict": on_conflict}
    async with open_client(app) as client:
        path = f"/api/flows/{quote_segment(name)}/tasks"
        task = await client.start(path, body, idempotency_key=idempotency_key)
    print_result(task, task["id"], as_json=json)


def parse_json(text: str, *, field: str) -> Any:
    try:
        return jsonlib.loads(text)
    except ValueError as error:
        raise InvalidInput(field, f"is not JSON: {error}") from None


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file} is not UTF-8 at byte {error.start:,}") from None


def _to_json(problems: Iterable[FlowProblem]) -> list[dict[str, str]]:
    return [{"path": path, "problem": problem} for path, problem in problems]


def _print_warnings(warnings: Iterable[dict[str, str]]) -> None:
    for warning in warnings:
        print(f"warning  {format_problem(warning['path'], warning['problem'])}")
