"""What no other tool checks: sizes, names, and constructs that we agreed not to write.

An exception is listed here, with its reason. One that is no longer needed makes a test fail.
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
# Names that say nothing about what is inside, so that everything ends up there.
EMPTY_NAMES: Final = frozenset(
    {"base", "common", "helpers", "manager", "misc", "models", "types", "utils"}
)
PROMISED_FOR_LATER: Final = "ODOT"[::-1]  # Or this file would break its own rule.

# Rule and file: the reason why the rule does not hold there.
EXCEPTIONS: Final[dict[tuple[str, str], str]] = {
    ("long_functions", "src/headway/adapters/sql/migrations/versions/m0001_runs.py"): (
        "A table is made in one statement, however many columns it has."
    ),
    ("tasks_without_an_owner", "src/headway/lanes/timeout_runner.py"): (
        "A task that will not die would keep its TaskGroup for ever; it is owned by Deadlines."
    ),
    ("wide_excepts", "src/headway/lanes/registry.py"): (
        "A run's handle may raise anything; whoever sends it a message is only told no."
    ),
    ("wide_excepts", "src/headway/adapters/sql/write/writer.py"): (
        "The top of the writer's loop: every fault becomes an answer, and none ends the thread."
    ),
    ("wide_excepts", "src/headway/services/engine/execute.py"): (
        "A job may raise anything: it becomes the run's error."
    ),
    ("wide_excepts", "src/headway/forked.py"): (
        "It stands between a coroutine and whoever drives it: what is thrown in is passed on."
    ),
    ("wide_excepts", "src/headway/services/context/blocking_context.py"): (
        "A job may raise anything: what ends its thread is told to whoever waits for it."
    ),
    ("wide_excepts", "src/headway/services/engine/hint_relay.py"): (
        "The top of a hold: a mistake of ours costs this run its hints, and nothing else."
    ),
    ("tasks_without_an_owner", "src/headway/services/submit/run_watcher.py"): (
        "It lives from the first who waits to the last, and none of them outlives the others."
    ),
    ("wide_excepts", "src/headway/services/submit/run_watcher.py"): (
        "The top of a loop on which all who wait rely: a mistake of ours is told, and they look."
    ),
    ("wide_excepts", "src/headway/services/engine/engine.py"): (
        "The top of an execution and of a round: a mistake of ours is told and costs only this one."
    ),
    ("wide_excepts", "src/headway/services/engine/sweep.py"): (
        "a wake that breaks costs no more than itself; the next round looks again"
    ),
    ("wide_excepts", "src/headway/services/engine/claimer.py"): (
        "The top of a loop: a mistake of ours is told and costs this round alone."
    ),
    ("wide_excepts", "src/headway/services/upkeep/event_feed.py"): (
        "The top of a loop on which all watchers rely: a mistake of ours is told, and it goes on."
    ),
    ("wide_excepts", "src/headway/adapters/sql/connect/database.py"): (
        "Each driver raises classes of its own; what they mean is asked, and the rest let go."
    ),
    ("wide_excepts", "src/headway/services/flow/functions.py"): (
        "A function of a flow may raise anything: it becomes the node's error."
    ),
    ("wide_excepts", "src/headway/services/job_errors.py"): (
        "Even an error's own words may raise anything: then its name has to do."
    ),
    ("wide_excepts", "src/headway/worker/worker_server.py"): (
        "A service may raise anything: it is what its caller is told."
    ),
    ("wide_excepts", "src/headway/api/http/request_guard.py"): (
        "The top of a request: a mistake of ours is told to the client as an id, and logged."
    ),
    ("tasks_without_an_owner", "src/headway/api/server.py"): (
        "uvicorn ends in good order only by itself; whoever is cancelled waits for that."
    ),
    ("tasks_without_an_owner", "src/headway/services/upkeep/configuration.py"): (
        "A group would wrap what the body raises; the task is cancelled and awaited at its end."
    ),
    ("tasks_without_an_owner", "src/headway/cli/client/in_process.py"): (
        "The application answers while its answer is read; leaving the stream ends it."
    ),
    ("wide_excepts", "src/headway/cli/load_app.py"): (
        "A file of the user's may raise anything: it is told, with its place there."
    ),
    ("tasks_without_an_owner", "src/headway/cli/demo/environment.py"): (
        "A group would wrap what the demo says when it cannot go on; it is ended by hand."
    ),
    ("tasks_without_an_owner", "src/headway/cli/commands/watch.py"): (
        "A group would wrap what ends the watching; what asks beside it is ended by hand."
    ),
    ("tasks_without_an_owner", "src/headway/services/upkeep/event_feed.py"): (
        "The feed owns the one that follows the stream, and ends it with itself."
    ),
    ("tasks_without_an_owner", "src/headway/adapters/redis/pipeline.py"): (
        "A batch carries the calls of many tasks, and outlives each; closing the pipe ends it."
    ),
    ("tasks_without_an_owner", "src/headway/adapters/redis/subscriber.py"): (
        "A line serves all who listen, whoever came first; closing the subscriber ends it."
    ),
    ("tasks_without_an_owner", "src/headway/adapters/sql/connect/database.py"): (
        "A read outlives the caller that was cancelled; closing the database waits for it."
    ),
    ("tasks_without_an_owner", "src/headway/adapters/sql/notify_listener.py"): (
        "It listens from the first listener on until the store, which owns it, is closed."
    ),
    ("tasks_without_an_owner", "src/headway/services/engine/engine.py"): (
        "A job that will not end is left behind when the engine stops; a group would wait for it."
    ),
    ("tasks_without_an_owner", "src/headway/services/context/reporter.py"): (
        "The report owns its one timer, and ends it with itself."
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


def promises_for_later(source: Source) -> Iterator[int]:
    for number, line in enumerate(source.text.splitlines(), start=1):
        if PROMISED_FOR_LATER in line:
            yield number


def wide_excepts(source: Source) -> Iterator[int]:
    """A net for everything hides what we did not think of, unless it lets go again at once."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = {"BaseException" if node.type is None else ast.unparse(node.type)}
        if isinstance(node.type, ast.Tuple):
            caught = {ast.unparse(one) for one in node.type.elts}
        last = node.body[-1]
        lets_go = isinstance(last, ast.Raise) and last.exc is None
        if "Exception" in caught or ("BaseException" in caught and not lets_go):
            yield node.lineno


def loggers_without_context(source: Source) -> Iterator[int]:
    """What is only in `extra` is shown by no plain handler; `headway.log` says it in words too."""
    is_face = source.name.startswith("src/headway/cli/") or source.name == "src/headway/log.py"
    if source.is_product and not is_face:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "logging.getLogger":
                yield node.lineno


def waits_that_lose_cancellation(source: Source) -> Iterator[int]:
    """`asyncio.wait_for` may swallow a cancel, or a result; `asyncio.timeout` does neither."""
    yield from _uses_of_asyncio(source, {"wait_for"})


def tasks_without_an_owner(source: Source) -> Iterator[int]:
    """A task belongs to a TaskGroup, and that is called a group."""
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
    promises_for_later,
    tasks_without_an_owner,
    waits_that_lose_cancellation,
    wide_excepts,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_source_has_no(rule: Callable[[Source], Iterator[int]]) -> None:
    broken = {source.name: list(rule(source)) for source in sources()}
    found = {name: lines for name, lines in broken.items() if lines}
    allowed = {name for rule_name, name in EXCEPTIONS if rule_name == rule.__name__}
    assert {name: lines for name, lines in found.items() if name not in allowed} == {}
    assert allowed - set(found) == set(), "no longer needed: remove the exception"


def test_every_exception_is_of_a_rule_and_has_a_reason() -> None:
    names = {rule.__name__ for rule in RULES}
    assert {rule for rule, _ in EXCEPTIONS} <= names
    assert all(reason.strip() for reason in EXCEPTIONS.values())


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (long_functions, "def f():\n" + "    pass\n" * 50),
        (long_files, "pass\n" * (FILE_LINE_COUNT_MAX + 1)),
        (loggers_without_context, "import logging\nlog = logging.getLogger(__name__)\n"),
        (promises_for_later, f"# {PROMISED_FOR_LATER}: later\n"),
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
def test_a_rule_finds_what_it_forbids(rule: Callable[[Source], Iterator[int]], text: str) -> None:
    assert list(rule(Source(ROOT / "src" / "one.py", text, ast.parse(text))))


PINNED: Final = (
    ROOT / "requirements-dev.txt",
    *sorted((ROOT / "tests" / "bench" / "peers").glob("*.txt")),
)


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_the_pinned_dependencies_name_no_address(path: Path) -> None:
    assert "://" not in path.read_text(encoding="utf-8")
