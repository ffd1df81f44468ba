"""Clients must not notice a deploy that restarts the servers in turn under load."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.contract.backends import open_database
from tests.rehearsal.deploy import AGENT_COUNT, TASK_COUNT, Outcome, rehearse
from tests.servers import PostgresServer

RESTART_COUNT = 5


@pytest.mark.slow
@pytest.mark.backend("postgres")
@pytest.mark.timeout(600)
@pytest.mark.proves("I1", "I3", "I14", "I17", "I25", "R4.9", "R5.14", "R6.5")
async def test_a_rolling_restart_loses_no_run_event_or_answer(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with open_database(postgres_server) as name:
        url = postgres_server.url(name)
        outcome = await rehearse(url, tmp_path, restart_count=RESTART_COUNT)
    check_nothing_is_lost(outcome)
    check_answers(outcome)
    check_executions(outcome)
    check_streams(outcome)


def check_nothing_is_lost(outcome: Outcome) -> None:
    """Check that every run that was accepted with a 2xx has succeeded."""
    statuses = {run_id: record["status"] for run_id, record in outcome.records.items()}
    assert set(statuses.values()) == {"succeeded"}, statuses
    assert len(outcome.seen.tasks) == TASK_COUNT
    for service in ("credit", "ship"):
        served = Counter(order for (order,) in outcome.ledger_lines(service))
        assert served == {f"order-{number}": 1 for number in range(TASK_COUNT)}, service


def check_answers(outcome: Outcome) -> None:
    """Check that each agent received exactly the answer that was given to its interrupt."""
    agents = [run_id for run_id, job in outcome.seen.accepted.items() if job == "agent"]
    assert len(agents) == AGENT_COUNT
    received = [(run_id, json.loads(answer)) for run_id, answer in outcome.ledger_lines("answered")]
    assert sorted(received, key=str) == sorted(outcome.seen.answers.items(), key=str)
    assert {run_id for run_id, _ in received} == set(agents)
    assert {event["payload"]["outcome"] for event in outcome.events("permission_result")} == {
        "answered"
    }
    requested = Counter(
        (event["run_id"], event["payload"]["call_id"])
        for event in outcome.events("permission_request")
    )
    assert Counter(run_id for run_id, _ in requested) == Counter(agents)
    for run_id, call_id in outcome.open_at_the_end.items():
        assert (run_id, call_id) in requested


def check_executions(outcome: Outcome) -> None:
    """Check that the stream has a new claim for each repeated execution."""
    claims = outcome.claims()
    started = Counter((run_id, int(number)) for run_id, number in outcome.ledger_lines("started"))
    assert set(started.values()) == {1}
    for run_id, generation in started:
        assert claims[run_id][generation] >= 1, (run_id, generation)
    again = {run_id for run_id, generation in started if generation > 1}
    assert {outcome.seen.accepted[run_id] for run_id in again} >= {"agent"}


def check_streams(outcome: Outcome) -> None:
    """Check that every client has seen every event once, in order and without a resync."""
    for stream in outcome.seen.streams:
        assert "resync" not in {event.event for event in stream}
        assert [event.data["seq"] for event in stream] == list(range(1, len(stream) + 1))
        assert len(stream) >= outcome.last_seq
