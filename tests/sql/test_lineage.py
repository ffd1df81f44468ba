"""I21: no write reaches a node of another cluster, or one that is behind the newest state seen."""

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
def test_a_new_process_refuses_nothing() -> None:
    assert refusal_reason(THEIRS, address="a", newest=None) is None
    assert refusal_reason(None, address="a", newest=None) is None


@pytest.mark.proves("I21")
def test_another_cluster_is_refused_however_new() -> None:
    assert refusal_reason(THEIRS, address="a", newest=AT_A) == "belongs to another cluster"


@pytest.mark.proves("I21")
def test_an_empty_database_in_place_of_ours_is_refused() -> None:
    assert refusal_reason(None, address="a", newest=AT_A) == "belongs to another cluster"


@pytest.mark.proves("I21")
def test_an_old_primary_is_refused_wherever_it_stands_and_whatever_it_has() -> None:
    for address in ("a", "b"):
        problem = refusal_reason(ours(epoch=0, seq=99), address=address, newest=AT_A)
        assert problem == OLD_PRIMARY


@pytest.mark.proves("I21")
def test_home_may_not_go_back() -> None:
    assert "is behind" in (refusal_reason(ours(epoch=1, seq=49), address="a", newest=AT_A) or "")
    assert refusal_reason(ours(epoch=1, seq=50), address="a", newest=AT_A) is None


@pytest.mark.proves("I21")
def test_a_promoted_replica_may_lack_the_last_commits() -> None:
    assert refusal_reason(ours(epoch=1, seq=49), address="b", newest=AT_A) is None
    assert refusal_reason(ours(epoch=2, seq=49), address="a", newest=AT_A) is None


@pytest.mark.proves("R4.4")
def test_without_tables_the_first_address_is_chosen() -> None:
    assert choose_node({"a": None, "b": None}, None) == NodeChoice("a", raises_epoch=False)


@pytest.mark.proves("I21")
def test_a_new_process_prefers_the_node_that_has_our_tables() -> None:
    nodes = {"a": None, "b": ours(epoch=0)}
    assert choose_node(nodes, None) == NodeChoice("b", raises_epoch=False)


@pytest.mark.proves("I21")
def test_a_new_process_takes_the_highest_epoch_not_the_first_address() -> None:
    nodes = {"a": ours(epoch=0, seq=99), "b": ours(epoch=1, seq=50)}
    assert choose_node(nodes, None) == NodeChoice("b", raises_epoch=False)


@pytest.mark.proves("I21")
def test_a_new_process_between_equals_takes_the_newest_and_settles_it() -> None:
    nodes = {"a": ours(epoch=1, seq=50), "b": ours(epoch=1, seq=60)}
    assert choose_node(nodes, None) == NodeChoice("b", raises_epoch=True)


@pytest.mark.proves("R4.4")
def test_a_new_process_between_full_equals_takes_the_first_and_settles_it() -> None:
    nodes = {"b": ours(epoch=1, seq=50), "a": ours(epoch=1, seq=50)}
    assert choose_node(nodes, None) == NodeChoice("b", raises_epoch=True)


@pytest.mark.proves("I21")
def test_a_new_process_does_not_guess_between_clusters() -> None:
    assert choose_node({"a": ours(epoch=0), "b": THEIRS}, None) is None


@pytest.mark.proves("I21")
def test_home_alone_stays_home() -> None:
    assert choose_node({"a": AT_A.stream}, AT_A) == NodeChoice("a", raises_epoch=False)


@pytest.mark.proves("I21")
def test_a_replica_of_the_same_epoch_is_a_failover_and_gets_a_new_one() -> None:
    assert choose_node({"b": ours(epoch=1, seq=49)}, AT_A) == NodeChoice("b", raises_epoch=True)


@pytest.mark.proves("I21")
def test_a_failover_that_others_have_marked_is_followed() -> None:
    nodes = {"a": AT_A.stream, "b": ours(epoch=2, seq=10)}
    assert choose_node(nodes, AT_A) == NodeChoice("b", raises_epoch=False)


@pytest.mark.proves("I21")
def test_home_that_answers_stays_home_beside_a_stray() -> None:
    at_b = NewestState(ours(epoch=1, seq=50), "b")
    nodes = {"a": ours(epoch=1, seq=70), "b": ours(epoch=1, seq=50)}
    assert choose_node(nodes, at_b) == NodeChoice("b", raises_epoch=True)


@pytest.mark.proves("I21")
def test_what_was_seen_rises_and_never_falls() -> None:
    seen = StateTracker()
    assert seen.adopt(ours(epoch=1, seq=50), primary="a", expected=None)
    seen.note_commit(52, epoch=1, address="a")
    assert seen.adopt(ours(epoch=1, seq=51), primary="a", expected=None)  # It had read before 52.
    assert seen.newest == NewestState(ours(epoch=1, seq=52), "a")


@pytest.mark.proves("I21")
def test_an_epoch_that_another_process_raised_is_learned_from_a_commit() -> None:
    seen = StateTracker()
    assert seen.adopt(ours(epoch=1, seq=50), primary="a", expected=None)
    seen.note_commit(51, epoch=2, address="a")
    assert seen.newest == NewestState(ours(epoch=2, seq=51), "a")


@pytest.mark.proves("I21")
def test_a_late_word_from_the_old_home_does_not_count() -> None:
    seen = StateTracker()
    assert seen.adopt(ours(epoch=2, seq=40), primary="b", expected=None)
    seen.note_commit(99, epoch=1, address="a")
    assert seen.newest == NewestState(ours(epoch=2, seq=40), "b")


@pytest.mark.proves("I21")
def test_what_was_judged_by_something_that_is_over_is_not_adopted() -> None:
    seen = StateTracker()
    assert seen.adopt(ours(epoch=1), primary="a", expected=None)
    judged_by = seen.newest
    assert seen.adopt(ours(epoch=2), primary="b", expected=judged_by)
    assert not seen.adopt(ours(epoch=1), primary="a", expected=judged_by)
    assert seen.newest == NewestState(ours(epoch=2), "b")


@pytest.mark.proves("I21")
def test_two_who_come_to_the_same_result_agree() -> None:
    seen = StateTracker()
    assert seen.adopt(ours(epoch=1), primary="a", expected=None)
    judged_by = seen.newest
    assert seen.adopt(ours(epoch=2, seq=5), primary="b", expected=judged_by)
    assert seen.adopt(ours(epoch=2, seq=4), primary="b", expected=judged_by)
    assert seen.newest == NewestState(ours(epoch=2, seq=5), "b")
