"""Rules that no other tool checks: sizes, names, language, and constructs we do not use.

Exceptions are listed here with their reasons. An exception that is no longer needed fails a test.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
FUNCTION_LINE_COUNT_MAX: Final = 50
FILE_LINE_COUNT_MAX: Final = 500
# Names that describe nothing, so that everything ends up there.
EMPTY_NAMES: Final = frozenset(
    {"base", "common", "helpers", "manager", "misc", "models", "types", "utils"}
)
POSTPONED: Final = "ODOT"[::-1]  # Reversed, so that this file does not break its own rule.

# Rule and file, with the reason why the rule does not apply there.
EXCEPTIONS: Final[dict[tuple[str, str], str]] = {
    ("long_functions", "src/headway/adapters/sql/migrations/versions/m0001_runs.py"): (
        "A table is created in one statement, however many columns it has."
    ),
    ("tasks_without_an_owner", "src/headway/lanes/timeout_runner.py"): (
        "A task that never ends would keep its TaskGroup open; the runner owns it instead."
    ),
    ("wide_excepts", "src/headway/lanes/registry.py"): (
        "A run's handle may raise anything; the sender of a message only gets a refusal."
    ),
    ("wide_excepts", "src/headway/adapters/sql/write/writer.py"): (
        "The top of the writer's loop: every error becomes a result, and none ends the thread."
    ),
    ("wide_excepts", "src/headway/services/engine/execute.py"): (
        "A job may raise anything: it becomes the run's error."
    ),
    ("wide_excepts", "src/headway/process/fork_guard.py"): (
        "It wraps a coroutine: exceptions thrown into it are passed on."
    ),
    ("wide_excepts", "src/headway/services/context/blocking_context.py"): (
        "A job may raise anything: the error is passed from its thread to the waiting caller."
    ),
    ("wide_excepts", "src/headway/services/engine/hint_relay.py"): (
        "The top of a task per run: an internal error costs this run its hints, and nothing else."
    ),
    ("tasks_without_an_owner", "src/headway/services/submit/run_watcher.py"): (
        "The poll runs from the first waiter to the last; the watcher cancels it."
    ),
    ("wide_excepts", "src/headway/services/submit/run_watcher.py"): (
        "The top of a loop that serves all waiters: an internal error is logged, and they read."
    ),
    ("wide_excepts", "src/headway/services/engine/engine.py"): (
        "The top of an execution: an internal error is logged, and costs only this one."
    ),
    ("wide_excepts", "src/headway/services/background_tasks.py"): (
        "The top of a round of a loop: an internal error is logged, and costs only this round."
    ),
    ("wide_excepts", "src/headway/services/engine/sweep.py"): (
        "A failed wake-up costs only itself; the next round tries again."
    ),
    ("wide_excepts", "src/headway/services/engine/claimer.py"): (
        "The top of a loop: an internal error is logged and costs only this round."
    ),
    ("wide_excepts", "src/headway/services/upkeep/event_feed.py"): (
        "The top of a loop that serves all watchers: an internal error is logged, and it continues."
    ),
    ("wide_excepts", "src/headway/adapters/sql/connect/database.py"): (
        "Each driver raises its own classes; they are classified, and the rest is raised again."
    ),
    ("wide_excepts", "src/headway/services/flow/functions.py"): (
        "A function of a flow may raise anything: it becomes the node's error."
    ),
    ("wide_excepts", "src/headway/services/job_errors.py"): (
        "Formatting an error may itself raise anything: then its class name is used."
    ),
    ("wide_excepts", "src/headway/worker/worker_server.py"): (
        "A service may raise anything: the error is its response."
    ),
    ("wide_excepts", "src/headway/api/http/request_guard.py"): (
        "The top of a request: an internal error is logged, and the client gets its id."
    ),
    ("tasks_without_an_owner", "src/headway/api/server.py"): (
        "uvicorn shuts down cleanly only by itself; a canceled caller waits for that."
    ),
    ("tasks_without_an_owner", "src/headway/services/upkeep/configuration.py"): (
        "A group would wrap the body's exception; the task is canceled and awaited at its end."
    ),
    ("tasks_without_an_owner", "src/headway/cli/client/in_process.py"): (
        "The application responds while the response is read; closing the stream ends it."
    ),
    ("wide_excepts", "src/headway/cli/load_app.py"): (
        "A user's file may raise anything: the error is shown with its file and line."
    ),
    ("tasks_without_an_owner", "src/headway/cli/demo/environment.py"): (
        "A group would wrap the demo's own error; the task is ended explicitly."
    ),
    ("tasks_without_an_owner", "src/headway/cli/commands/watch.py"): (
        "A group would wrap the exception that ends the watch; the task is ended explicitly."
    ),
    ("tasks_without_an_owner", "src/headway/services/upkeep/event_feed.py"): (
        "The feed owns its one task, and ends it in close()."
    ),
    ("tasks_without_an_owner", "src/headway/runtime/redis/pipeline.py"): (
        "A batch carries the calls of many tasks and outlives each; close() ends it."
    ),
    ("tasks_without_an_owner", "src/headway/runtime/redis/subscriber.py"): (
        "A connection serves all listeners; closing the subscriber ends it."
    ),
    ("tasks_without_an_owner", "src/headway/adapters/sql/connect/database.py"): (
        "A read outlives a canceled caller; closing the database waits for it."
    ),
    ("tasks_without_an_owner", "src/headway/adapters/sql/notify_listener.py"): (
        "It listens from the first listener until the store, which owns it, is closed."
    ),
    ("tasks_without_an_owner", "src/headway/services/engine/engine.py"): (
        "A job that does not end is abandoned when the engine stops; a group would wait for it."
    ),
    ("tasks_without_an_owner", "src/headway/services/context/reporter.py"): (
        "The reporter owns its one timer, and ends it in close()."
    ),
}


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def is_product(self) -> bool:
        return self.name.startswith("src/")


@cache
def sources() -> list[Source]:
    paths = sorted(path for top in ("src", "tests") for path in (ROOT / top).rglob("*.py"))
    texts = [(path, path.read_text(encoding="utf-8")) for path in paths]
    return [Source(path, text, ast.parse(text)) for path, text in texts]


def long_functions(source: Source) -> Iterator[int]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno + 1 > FUNCTION_LINE_COUNT_MAX:
                yield node.lineno


def long_files(source: Source) -> Iterator[int]:
    line_count = len(source.text.splitlines())
    if line_count > FILE_LINE_COUNT_MAX:
        yield line_count


def empty_names(source: Source) -> Iterator[int]:
    if EMPTY_NAMES & {source.path.stem, *source.path.relative_to(ROOT).parts}:
        yield 1


def postponed_work(source: Source) -> Iterator[int]:
    for number, line in enumerate(source.text.splitlines(), start=1):
        if POSTPONED in line:
            yield number


def wide_excepts(source: Source) -> Iterator[int]:
    """Catching everything hides unexpected errors, unless the handler raises them again."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = {"BaseException" if node.type is None else ast.unparse(node.type)}
        if isinstance(node.type, ast.Tuple):
            caught = {ast.unparse(item) for item in node.type.elts}
        last = node.body[-1]
        raises_again = isinstance(last, ast.Raise) and last.exc is None
        if "Exception" in caught or ("BaseException" in caught and not raises_again):
            yield node.lineno


def loggers_without_context(source: Source) -> Iterator[int]:
    """Plain handlers do not show `extra`; `headway.log` adds it to the message."""
    may_log_directly = (
        source.name.startswith("src/headway/cli/") or source.name == "src/headway/log.py"
    )
    if source.is_product and not may_log_directly:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "logging.getLogger":
                yield node.lineno


def waits_that_lose_cancellation(source: Source) -> Iterator[int]:
    """`asyncio.wait_for` can lose a cancel or a result; `asyncio.timeout` does not."""
    yield from _uses_of_asyncio(source, {"wait_for"})


def tasks_without_an_owner(source: Source) -> Iterator[int]:
    """A task belongs to a TaskGroup, in a variable whose name contains `group`."""
    if not source.is_product:
        return
    yield from _uses_of_asyncio(source, {"create_task", "ensure_future"})
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "create_task":
            owner = ast.unparse(node.value)
            if owner != "asyncio" and "group" not in owner:
                yield node.lineno


def _uses_of_asyncio(source: Source, names: set[str]) -> Iterator[int]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module == "asyncio":
            if names & {alias.name for alias in node.names}:
                yield node.lineno
        elif (
            isinstance(node, ast.Attribute)
            and node.attr in names
            and ast.unparse(node.value) == "asyncio"
        ):
            yield node.lineno


RULES: Final[list[Callable[[Source], Iterator[int]]]] = [
    empty_names,
    long_files,
    long_functions,
    loggers_without_context,
    postponed_work,
    tasks_without_an_owner,
    waits_that_lose_cancellation,
    wide_excepts,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_source_file_violates_the_rule(rule: Callable[[Source], Iterator[int]]) -> None:
    broken = {source.name: list(rule(source)) for source in sources()}
    found = {name: lines for name, lines in broken.items() if lines}
    allowed = {name for rule_name, name in EXCEPTIONS if rule_name == rule.__name__}
    assert {name: lines for name, lines in found.items() if name not in allowed} == {}
    assert allowed - set(found) == set(), "no longer needed: remove the exception"


def test_every_exception_names_a_rule_and_a_reason() -> None:
    names = {rule.__name__ for rule in RULES}
    assert {rule for rule, _ in EXCEPTIONS} <= names
    assert all(reason.strip() for reason in EXCEPTIONS.values())


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (long_functions, "def f():\n" + "    pass\n" * 50),
        (long_files, "pass\n" * (FILE_LINE_COUNT_MAX + 1)),
        (loggers_without_context, "import logging\nlog = logging.getLogger(__name__)\n"),
        (postponed_work, f"# {POSTPONED}: later\n"),
        (wide_excepts, "try:\n    pass\nexcept Exception:\n    pass\n"),
        (wide_excepts, "try:\n    pass\nexcept (Exception, SystemExit):\n    pass\n"),
        (wide_excepts, "try:\n    pass\nexcept:\n    pass\n"),
        (wide_excepts, "try:\n    pass\nexcept BaseException:\n    pass\n"),
        (waits_that_lose_cancellation, "import asyncio\nasyncio.wait_for(f, 1)\n"),
        (waits_that_lose_cancellation, "from asyncio import wait_for\n"),
        (tasks_without_an_owner, "import asyncio\nasyncio.create_task(f())\n"),
        (tasks_without_an_owner, "loop.create_task(f())\n"),
    ],
)
def test_rule_reports_a_text_that_violates_it(
    rule: Callable[[Source], Iterator[int]], text: str
) -> None:
    assert list(rule(Source(ROOT / "src" / "example.py", text, ast.parse(text))))


PINNED: Final = (
    ROOT / "requirements-dev.txt",
    *sorted((ROOT / "tests" / "bench" / "peers").glob("*.txt")),
)


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_pinned_dependencies_contain_no_url(path: Path) -> None:
    assert "://" not in path.read_text(encoding="utf-8")
