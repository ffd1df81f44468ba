"""The backends that the tests ran on: chosen by `--backends`, counted in a table at the end.

A test's backend is the name of the backend among its parameters, or of its marker, or that of the
server fixture it uses. A test with none of these belongs to the core, and always runs.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

# The values of `--backends`. A backend `postgres-several` belongs to the family `postgres`.
FAMILIES: Final = ("sqlite", "postgres", "mariadb", "redis")
CORE: Final = "core"
_PROPERTY: Final = "backend"
_WORST_LAST: Final = ("passed", "xfailed", "skipped", "failed")


def family_of(backend: str) -> str:
    return backend.partition("-")[0]


def backend_of(item: pytest.Item) -> str:
    for backend in _parameters_naming_a_backend(item):
        return backend
    marker = item.get_closest_marker("backend")
    if marker is not None:
        return str(marker.args[0])
    for fixture in getattr(item, "fixturenames", ()):
        family, _, kind = fixture.partition("_")
        if family in FAMILIES and kind in {"server", "pair", "cluster"}:
            return str(family)
    return CORE


def _parameters_naming_a_backend(item: pytest.Item) -> list[str]:
    callspec = getattr(item, "callspec", None)  # Only a test with parameters has one.
    if callspec is None:
        return []
    names = [
        value if parameter == "backend" else getattr(value, "name", None)
        for parameter, value in callspec.params.items()
    ]
    return [name for name in names if isinstance(name, str) and family_of(name) in FAMILIES]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("backends")
    group.addoption(
        "--backends",
        default=",".join(FAMILIES),
        help=f"run the tests of these backends and of the core; default: {','.join(FAMILIES)}",
    )
    group.addoption(
        "--require-services",
        action="store_true",
        default=os.environ.get("CI") == "true",
        help="a server that this machine lacks is a failure, not a skip; default when CI=true",
    )
    group.addoption(
        "--backends-report",
        type=Path,
        metavar="FILE",
        help="also write the table of backends to this file",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "backend(name): the backend that a test needs")
    wanted = _wanted_families(config)
    unknown = wanted - set(FAMILIES)
    if unknown:
        raise pytest.UsageError(
            f"--backends: no such backend: {', '.join(sorted(unknown))}; "
            f"there are {', '.join(FAMILIES)}"
        )
    config.pluginmanager.register(Table(config))


def _wanted_families(config: pytest.Config) -> set[str]:
    return {name.strip() for name in str(config.getoption("--backends")).split(",")} - {""}


# First, so that every other plugin sees only the tests that will run.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = _wanted_families(config) | {CORE}
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        backend = backend_of(item)
        item.user_properties.append((_PROPERTY, backend))
        (kept if family_of(backend) in wanted else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


class Table:
    """Counts each test once, by its worst outcome, in all worker processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._outcomes: dict[str, tuple[str, str]] = {}
        self._missing: Counter[str] = Counter()
        self._file: Path | None = config.getoption("--backends-report")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        backend = str(dict(report.user_properties).get(_PROPERTY, CORE))
        outcome = _outcome(report)
        _, known = self._outcomes.get(report.nodeid, (backend, "passed"))
        worst = max(known, outcome, key=_WORST_LAST.index)
        self._outcomes[report.nodeid] = (backend, worst)
        if outcome == "skipped" and isinstance(report.longrepr, tuple):
            self._missing[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._outcomes:
            return
        lines = self.lines()
        terminalreporter.section("backends")
        for line in lines:
            terminalreporter.write_line(line)
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text("\n".join(lines) + "\n")

    def lines(self) -> list[str]:
        counts: dict[str, Counter[str]] = {}
        for backend, outcome in self._outcomes.values():
            counts.setdefault(backend, Counter())[outcome] += 1
        width = max(len(backend) for backend in counts)
        table = [
            f"{backend:{width}}  {_say(counts[backend])}" for backend in sorted(counts, key=_order)
        ]
        reasons = [f"skipped {count}: {reason}" for reason, count in self._missing.items()]
        total = sum(each["skipped"] for each in counts.values())
        return [*table, *reasons, f"{total} skipped"]


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail") and report.skipped:
        return "xfailed"
    return str(report.outcome)


def _order(backend: str) -> tuple[int, str]:
    family = family_of(backend)
    return (FAMILIES.index(family) if family in FAMILIES else -1), backend


def _say(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[outcome]:5} {outcome}" for outcome in _WORST_LAST if counts[outcome])
