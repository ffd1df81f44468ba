"""The checks of the race's results; the races themselves are not tests."""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.bench.engine.chart import BAR_WIDTH, chart
from tests.bench.engine.contestants import FULL, STORES, Entry, entries_of
from tests.bench.engine.environments import REQUIREMENTS, version_of
from tests.bench.engine.goals import verdicts
from tests.bench.engine.order import Answer, Order, Work, as_argument, received_order
from tests.bench.engine.referee import Referee
from tests.bench.engine.report import write_engine_part
from tests.bench.engine.results import Measure, Result
from tests.bench.machine import this_machine
from tests.bench.page import replace_part
from tests.bench.places import Places

SVG = "{http://www.w3.org/2000/svg}"


def entries(work: Work) -> list[Entry]:
    return list(entries_of(work, stores=STORES, is_ours_alone=False, scale=FULL))


def result(entry: Entry, *seconds: float) -> Result:
    """Return a result with a thousand jobs in each of `seconds`."""
    return Result(entry, tuple(Answer(count=1_000, elapsed_s=s, cpu_s=1.0) for s in seconds))


def found(results: Sequence[Result], store: str, durability: str = "") -> str:
    measurements = [
        str(verdict)
        for verdict in verdicts(results)
        if (verdict.goal.store, verdict.goal.durability) == (store, durability)
    ]
    return measurements[0]


def test_the_referee_accepts_a_correct_order() -> None:
    referee = Referee(concurrent_count=2)
    referee.enter(0, 0)
    referee.enter(1, 1)
    referee.leave(0)
    referee.enter(0, 2)
    assert referee.violation_count == 0


@pytest.mark.parametrize(
    ("steps", "concurrent_count"),
    [
        ([("enter", 0, 0), ("enter", 0, 1)], 2),
        ([("enter", 0, 1), ("leave", 0, 1), ("enter", 0, 0)], 2),
        ([("enter", 0, 0), ("enter", 1, 1)], 1),
    ],
    ids=["two of a key at once", "out of order", "above the limit"],
)
def test_the_referee_detects_violations(
    steps: list[tuple[str, int, int]], concurrent_count: int
) -> None:
    referee = Referee(concurrent_count=concurrent_count)
    for step, key, number in steps:
        if step == "enter":
            referee.enter(key, number)
        else:
            referee.leave(key)
    assert referee.violation_count == 1


def test_an_order_passed_as_a_program_argument_is_parsed_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = Order(work=Work.KEYED, store="sqlite", job_count=3, work_s=0.001)
    monkeypatch.setattr("sys.argv", ["bench", as_argument(order)])
    assert received_order() == order


def test_headway_is_compared_with_the_best_other_system_in_each_round() -> None:
    seconds = {"headway": (1.0, 2.0, 4.0), "huey": (5.0, 10.0, 20.0), "dbos": (50.0, 50.0, 50.0)}
    on_sqlite = [entry for entry in entries(Work.DRAIN) if entry.contestant.store == "sqlite"]
    results = [result(entry, *seconds[entry.contestant.system]) for entry in on_sqlite]
    verdict = next(iter(verdicts(results)))
    assert verdict.other == "Huey, SQLite (process)"
    assert verdict.value.values == pytest.approx((5.0, 5.0, 5.0))
    assert verdict.holds


def test_results_of_different_durability_are_not_compared() -> None:
    quick_at = {("huey", "process"): 0.1}
    on_sqlite = [entry for entry in entries(Work.DRAIN) if entry.contestant.store == "sqlite"]
    results = [
        result(entry, quick_at.get((entry.contestant.system, entry.contestant.durability), 1.0))
        for entry in on_sqlite
    ]
    assert ": 0.1 times Huey, SQLite (process)" in found(results, "sqlite", "process")
    assert ": 1 times" in found(results, "sqlite", "power")


def test_a_result_above_its_limit_is_reported_as_missed() -> None:
    ours = {
        entry.contestant.store: entry
        for entry in entries(Work.RECOVERY)
        if entry.contestant.is_ours
    }
    results = [result(ours["sqlite"], 1.0), result(ours["postgres"], 21.0)]
    assert found(results, "sqlite", "process").endswith("reaches the aim")
    assert found(results, "postgres").endswith("missed")


def test_a_system_that_does_not_finish_in_time_is_shown_without_a_duration() -> None:
    assert result(entries(Work.RECOVERY)[0], inf).format_measure(Measure.UNTIL) == "not in time"


def test_order_violations_are_not_counted_if_no_key_was_used_twice() -> None:
    texts = {
        entry.contestant.title: result(entry, 1.0).format_measure(Measure.VIOLATIONS)
        for entry in entries(Work.KEYED)
    }
    assert texts == {"headway": "0", "Procrastinate": "0", "DBOS": "no key came twice"}


def test_the_chart_names_every_contestant_and_every_bar_fits() -> None:
    drained = [result(entry, place + 1.0) for place, entry in enumerate(entries(Work.DRAIN))]
    recovered = [result(entry, inf) for entry in entries(Work.RECOVERY)]
    drawn = ET.fromstring(chart([*drained, *recovered]))  # noqa: S314 - We have made it.
    texts = {text.text for text in drawn.iter(f"{SVG}text")}
    for entry in (*drained, *recovered):
        contestant = entry.entry.contestant
        assert f"{contestant.title} · {contestant.store_title}" in texts
    widths = [float(bar.attrib["width"]) for bar in drawn.iter(f"{SVG}rect")][1:]
    assert len(widths) == len(drained)  # A system that did not finish in time has no bar.
    assert max(widths) == BAR_WIDTH


def test_one_part_of_the_page_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    parts = "<!-- {0} -->\nold {0}\n<!-- end of {0} -->\n"
    page.write_text("top\n" + parts.format("engine") + parts.format("store"))
    replace_part("engine", ["new"], path=page)
    text = page.read_text()
    assert text.startswith("top\n<!-- engine -->\n\nnew\n<!-- end of engine -->\n")
    assert "old store" in text
    assert "old engine" not in text


def test_flow_benchmark_results_are_judged_recorded_and_drawn(tmp_path: Path) -> None:
    page, picture = tmp_path / "page.md", tmp_path / "page.svg"
    page.write_text("<!-- flows -->\n<!-- end of flows -->\n")
    seconds = {"headway": 0.8, "dbos": 5.0}
    results = [result(entry, seconds[entry.contestant.system]) for entry in entries(Work.FLOWS)]
    judged = verdicts(results)
    assert [verdict.holds for verdict in judged] == [True] * 4
    slower = [result(entry, 1.1) for entry in entries(Work.FLOWS)]
    assert [verdict.holds for verdict in verdicts(slower)] == [False] * 4
    write_engine_part(
        results,
        judged,
        [],
        places=Places((), {}, ()),
        machine=this_machine(),
        command="bench",
        page=page,
        picture=picture,
    )
    text = page.read_text()
    assert "| headway, a worker over HTTP | SQLite (process) | 1,250/s |" in text
    assert "must be 1000/s or more (aim 2000/s): holds" in text
    assert "Flows of ten steps" in picture.with_stem("page-flows").read_text()


def test_every_compared_system_has_a_pinned_version() -> None:
    systems = {entry.contestant.system for work in Work for entry in entries(work)} - {"headway"}
    assert {path.stem for path in REQUIREMENTS.glob("*.txt")} == systems
    assert all(version_of(system) for system in systems)
