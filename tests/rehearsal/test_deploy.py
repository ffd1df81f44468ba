"""Clients must not notice a deploy that restarts the servers in turn under load."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.contract.backends import database_on
from tests.rehearsal.deploy import AGENT_COUNT, TASK_COUNT, Outcome, rehearse
from tests.servers import PostgresServer

RESTART_COUNT = 5


@pytest.mark.slow
@pytest.mark.backend("postgres")
@pytest.mark.timeout(600)
@pytest.mark.proves("I1", "I3", "I14", "I17", "I25", "R4.9", "R5.14", "R6.5")
async def test_a_rolling_restart_loses_nothing_and_invents_no_answer(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with database_on(postgres_server) as name:
        url = postgres_server.url(name)
        outcome = await rehearse(url, tmp_path, restart_count=RESTART_COUNT)
    check_nothing_is_lost(outcome)
    check_answers(outcome)
    check_executions(outcome)
    check_streams(outcome)


def check_nothing_is_lost(outcome: Outcome) -> None:
    """Every run for which a client got a 2xx has succeeded."""
    statuses = {run_id: record["status"] for run_id, record in outcome.records.items()}
    assert set(statuses.values()) == {"succeeded"}, statuses
    assert len(outcome.seen.tasks) == TASK_COUNT
    for service in ("credit", "ship"):
        served = Counter(order for (order,) in outcome.of_ledger(service))
        assert served == {f"order-{number}": 1 for number in range(TASK_COUNT)}, service


def check_answers(outcome: Outcome) -> None:
    """Each agent received the answer that a person gave once, to the same question."""
    agents = [run_id for run_id, job in outcome.seen.accepted.items() if job == "agent"]
    assert len(agents) == AGENT_COUNT
    heard = [(run_id, json.loads(answer)) for run_id, answer in outcome.of_ledger("heard")]
    assert sorted(heard, key=str) == sorted(outcome.seen.answers.items(), key=str)
    assert {run_id for run_id, _ in heard} == set(agents)
    assert {event["payload"]["outcome"] for event in outcome.events("permission_result")} == {
        "answered"
    }
    asked = Counter(
        (event["run_id"], event["payload"]["call_id"])
        for event in outcome.events("permission_request")
    )
    assert Counter(run_id for run_id, _ in asked) == Counter(agents)
    for run_id, call_id in outcome.open_at_the_end.items():
        assert (run_id, call_id) in asked


def check_executions(outcome: Outcome) -> None:
    """The stream has a new claim for each run that was executed again."""
    claims = outcome.claims()
    began = Counter((run_id, int(number)) for run_id, number in outcome.of_ledger("began"))
    assert set(began.values()) == {1}
    for run_id, generation in began:
        assert claims[run_id][generation] >= 1, (run_id, generation)
    again = {run_id for run_id, generation in began if generation > 1}
    assert {outcome.seen.accepted[run_id] for run_id in again} >= {"agent"}


def check_streams(outcome: Outcome) -> None:
    """Every client has seen every event once, in order, without having to start again."""
    for stream in outcome.seen.streams:
        assert "resync" not in {one.event for one in stream}
        assert [one.data["seq"] for one in stream] == list(range(1, len(stream) + 1))
        assert len(stream) >= outcome.last_seq
