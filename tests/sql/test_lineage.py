"""No write reaches a node of another cluster, or one behind the newest known state (I21)."""

import pytest

from headway.adapters.sql.connect.lineage import (
    OLD_PRIMARY,
    NewestState,
    NodeChoice,
    StateTracker,
    StreamState,
    choose_node,
    refusal_reason,
)


def ours(*, epoch: int, seq: int = 0) -> StreamState:
    return StreamState("ours", epoch, seq)


THEIRS = StreamState("theirs", 9, 900)
AT_A = NewestState(ours(epoch=1, seq=50), "a")


@pytest.mark.proves("I21")
def test_process_without_an_observed_state_refuses_no_node() -> None:
    assert refusal_reason(THEIRS, address="a", newest=None) is None
    assert refusal_reason(None, address="a", newest=None) is None


@pytest.mark.proves("I21")
def test_node_of_another_cluster_is_refused_at_any_epoch() -> None:
    assert refusal_reason(THEIRS, address="a", newest=AT_A) == "belongs to another cluster"


@pytest.mark.proves("I21")
def test_empty_database_in_place_of_ours_is_refused() -> None:
    assert refusal_reason(None, address="a", newest=AT_A) == "belongs to another cluster"


@pytest.mark.proves("I21")
def test_old_primary_is_refused_at_any_address() -> None:
    for address in ("a", "b"):
        problem = refusal_reason(ours(epoch=0, seq=99), address=address, newest=AT_A)
        assert problem == OLD_PRIMARY


@pytest.mark.proves("I21")
def test_primary_with_an_older_state_than_observed_is_refused() -> None:
    assert "is behind" in (refusal_reason(ours(epoch=1, seq=49), address="a", newest=AT_A) or "")
    assert refusal_reason(ours(epoch=1, seq=50), address="a", newest=AT_A) is None


@pytest.mark.proves("I21")
def test_promoted_replica_without_the_last_commits_is_accepted() -> None:
    assert refusal_reason(ours(epoch=1, seq=49), address="b", newest=AT_A) is None
    assert refusal_reason(ours(epoch=2, seq=49), address="a", newest=AT_A) is None


@pytest.mark.proves("R4.4")
def test_first_address_is_chosen_if_no_node_has_tables() -> None:
    assert choose_node({"a": None, "b": None}, None) == NodeChoice("a", raises_epoch=False)


@pytest.mark.proves("I21")
def test_new_process_prefers_the_node_that_has_our_tables() -> None:
    nodes = {"a": None, "b": ours(epoch=0)}
    assert choose_node(nodes, None) == NodeChoice("b", raises_epoch=False)


@pytest.mark.proves("I21")
def test_new_process_uses_the_highest_epoch_not_the_first_address() -> None:
    nodes = {"a": ours(epoch=0, seq=99), "b": ours(epoch=1, seq=50)}
    assert choose_node(nodes, None) == NodeChoice("b", raises_epoch=False)


@pytest.mark.proves("I21")
def test_new_process_uses_the_newest_node_of_an_epoch_and_increases_the_epoch() -> None:
    nodes = {"a": ours(epoch=1, seq=50), "b": ours(epoch=1, seq=60)}
    assert choose_node(nodes, None) == NodeChoice("b", raises_epoch=True)


@pytest.mark.proves("R4.4")
def test_new_process_uses_the_first_of_identical_nodes_and_increases_the_epoch() -> None:
    nodes = {"b": ours(epoch=1, seq=50), "a": ours(epoch=1, seq=50)}
    assert choose_node(nodes, None) == NodeChoice("b", raises_epoch=True)


@pytest.mark.proves("I21")
def test_new_process_chooses_no_node_if_nodes_belong_to_different_clusters() -> None:
    assert choose_node({"a": ours(epoch=0), "b": THEIRS}, None) is None


@pytest.mark.proves("I21")
def test_primary_stays_the_primary_if_it_is_the_only_reachable_node() -> None:
    assert choose_node({"a": AT_A.stream}, AT_A) == NodeChoice("a", raises_epoch=False)


@pytest.mark.proves("I21")
def test_choosing_a_replica_of_the_same_epoch_increases_the_epoch() -> None:
    assert choose_node({"b": ours(epoch=1, seq=49)}, AT_A) == NodeChoice("b", raises_epoch=True)


@pytest.mark.proves("I21")
def test_failover_recorded_by_another_process_is_followed() -> None:
    nodes = {"a": AT_A.stream, "b": ours(epoch=2, seq=10)}
    assert choose_node(nodes, AT_A) == NodeChoice("b", raises_epoch=False)


@pytest.mark.proves("I21")
def test_reachable_primary_is_preferred_to_another_writable_node() -> None:
    at_b = NewestState(ours(epoch=1, seq=50), "b")
    nodes = {"a": ours(epoch=1, seq=70), "b": ours(epoch=1, seq=50)}
    assert choose_node(nodes, at_b) == NodeChoice("b", raises_epoch=True)


@pytest.mark.proves("I21")
def test_observed_state_is_never_replaced_by_an_older_one() -> None:
    tracker = StateTracker()
    assert tracker.adopt(ours(epoch=1, seq=50), primary="a", expected=None)
    tracker.note_commit(52, epoch=1, address="a")
    assert tracker.adopt(
        ours(epoch=1, seq=51), primary="a", expected=None
    )  # It was read before 52.
    assert tracker.newest == NewestState(ours(epoch=1, seq=52), "a")


@pytest.mark.proves("I21")
def test_epoch_increased_by_another_process_is_noticed_at_a_commit() -> None:
    tracker = StateTracker()
    assert tracker.adopt(ours(epoch=1, seq=50), primary="a", expected=None)
    tracker.note_commit(51, epoch=2, address="a")
    assert tracker.newest == NewestState(ours(epoch=2, seq=51), "a")


@pytest.mark.proves("I21")
def test_late_commit_report_of_the_old_primary_is_ignored() -> None:
    tracker = StateTracker()
    assert tracker.adopt(ours(epoch=2, seq=40), primary="b", expected=None)
    tracker.note_commit(99, epoch=1, address="a")
    assert tracker.newest == NewestState(ours(epoch=2, seq=40), "b")


@pytest.mark.proves("I21")
def test_decision_based_on_an_outdated_state_is_not_adopted() -> None:
    tracker = StateTracker()
    assert tracker.adopt(ours(epoch=1), primary="a", expected=None)
    judged_by = tracker.newest
    assert tracker.adopt(ours(epoch=2), primary="b", expected=judged_by)
    assert not tracker.adopt(ours(epoch=1), primary="a", expected=judged_by)
    assert tracker.newest == NewestState(ours(epoch=2), "b")


@pytest.mark.proves("I21")
def test_concurrent_decisions_for_the_same_primary_are_both_adopted() -> None:
    tracker = StateTracker()
    assert tracker.adopt(ours(epoch=1), primary="a", expected=None)
    judged_by = tracker.newest
    assert tracker.adopt(ours(epoch=2, seq=5), primary="b", expected=judged_by)
    assert tracker.adopt(ours(epoch=2, seq=4), primary="b", expected=judged_by)
    assert tracker.newest == NewestState(ours(epoch=2, seq=5), "b")
