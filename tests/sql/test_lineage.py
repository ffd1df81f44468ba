"""I21: no write reaches a node of another cluster, or one that is behind the newest state seen."""

from headway.adapters.sql.connect.lineage import (
    OLD_PRIMARY,
    Choice,
    Newest,
    SeenState,
    Stream,
    choose,
    refusal,
)


def ours(*, epoch: int, seq: int = 0) -> Stream:
    return Stream("ours", epoch, seq)


THEIRS = Stream("theirs", 9, 900)
AT_A = Newest(ours(epoch=1, seq=50), "a")


def test_i21_a_new_process_refuses_nothing() -> None:
    assert refusal(THEIRS, at="a", newest=None) is None
    assert refusal(None, at="a", newest=None) is None


def test_i21_another_cluster_is_refused_however_new() -> None:
    assert refusal(THEIRS, at="a", newest=AT_A) == "belongs to another cluster"


def test_i21_an_empty_database_in_place_of_ours_is_refused() -> None:
    assert refusal(None, at="a", newest=AT_A) == "belongs to another cluster"


def test_i21_an_old_primary_is_refused_wherever_it_stands_and_whatever_it_has() -> None:
    for address in ("a", "b"):
        problem = refusal(ours(epoch=0, seq=99), at=address, newest=AT_A)
        assert problem == OLD_PRIMARY


def test_i21_home_may_not_go_back() -> None:
    assert "is behind" in (refusal(ours(epoch=1, seq=49), at="a", newest=AT_A) or "")
    assert refusal(ours(epoch=1, seq=50), at="a", newest=AT_A) is None


def test_i21_a_promoted_replica_may_lack_the_last_commits() -> None:
    assert refusal(ours(epoch=1, seq=49), at="b", newest=AT_A) is None
    assert refusal(ours(epoch=2, seq=49), at="a", newest=AT_A) is None


def test_r4_4_without_tables_the_first_address_is_chosen() -> None:
    assert choose({"a": None, "b": None}, None) == Choice("a", raises_epoch=False)


def test_i21_a_new_process_prefers_the_node_that_has_our_tables() -> None:
    nodes = {"a": None, "b": ours(epoch=0)}
    assert choose(nodes, None) == Choice("b", raises_epoch=False)


def test_i21_a_new_process_takes_the_highest_epoch_not_the_first_address() -> None:
    nodes = {"a": ours(epoch=0, seq=99), "b": ours(epoch=1, seq=50)}
    assert choose(nodes, None) == Choice("b", raises_epoch=False)


def test_i21_a_new_process_between_equals_takes_the_newest_and_settles_it() -> None:
    nodes = {"a": ours(epoch=1, seq=50), "b": ours(epoch=1, seq=60)}
    assert choose(nodes, None) == Choice("b", raises_epoch=True)


def test_r4_4_a_new_process_between_full_equals_takes_the_first_and_settles_it() -> None:
    nodes = {"b": ours(epoch=1, seq=50), "a": ours(epoch=1, seq=50)}
    assert choose(nodes, None) == Choice("b", raises_epoch=True)


def test_i21_a_new_process_does_not_guess_between_clusters() -> None:
    assert choose({"a": ours(epoch=0), "b": THEIRS}, None) is None


def test_i21_home_alone_stays_home() -> None:
    assert choose({"a": AT_A.stream}, AT_A) == Choice("a", raises_epoch=False)


def test_i21_a_replica_of_the_same_epoch_is_a_failover_and_gets_a_new_one() -> None:
    assert choose({"b": ours(epoch=1, seq=49)}, AT_A) == Choice("b", raises_epoch=True)


def test_i21_a_failover_that_others_have_marked_is_followed() -> None:
    nodes = {"a": AT_A.stream, "b": ours(epoch=2, seq=10)}
    assert choose(nodes, AT_A) == Choice("b", raises_epoch=False)


def test_i21_home_that_answers_stays_home_beside_a_stray() -> None:
    at_b = Newest(ours(epoch=1, seq=50), "b")
    nodes = {"a": ours(epoch=1, seq=70), "b": ours(epoch=1, seq=50)}
    assert choose(nodes, at_b) == Choice("b", raises_epoch=True)


def test_i21_what_was_seen_rises_and_never_falls() -> None:
    seen = SeenState()
    assert seen.adopt(ours(epoch=1, seq=50), home="a", expected=None)
    seen.saw(52, epoch=1, at="a")
    assert seen.adopt(ours(epoch=1, seq=51), home="a", expected=None)  # It had read before 52.
    assert seen.newest == Newest(ours(epoch=1, seq=52), "a")


def test_i21_an_epoch_that_another_process_raised_is_learned_from_a_commit() -> None:
    seen = SeenState()
    assert seen.adopt(ours(epoch=1, seq=50), home="a", expected=None)
    seen.saw(51, epoch=2, at="a")
    assert seen.newest == Newest(ours(epoch=2, seq=51), "a")


def test_i21_a_late_word_from_the_old_home_does_not_count() -> None:
    seen = SeenState()
    assert seen.adopt(ours(epoch=2, seq=40), home="b", expected=None)
    seen.saw(99, epoch=1, at="a")
    assert seen.newest == Newest(ours(epoch=2, seq=40), "b")


def test_i21_what_was_judged_by_something_that_is_over_is_not_adopted() -> None:
    seen = SeenState()
    assert seen.adopt(ours(epoch=1), home="a", expected=None)
    judged_by = seen.newest
    assert seen.adopt(ours(epoch=2), home="b", expected=judged_by)
    assert not seen.adopt(ours(epoch=1), home="a", expected=judged_by)
    assert seen.newest == Newest(ours(epoch=2), "b")


def test_i21_two_who_come_to_the_same_result_agree() -> None:
    seen = SeenState()
    assert seen.adopt(ours(epoch=1), home="a", expected=None)
    judged_by = seen.newest
    assert seen.adopt(ours(epoch=2, seq=5), home="b", expected=judged_by)
    assert seen.adopt(ours(epoch=2, seq=4), home="b", expected=judged_by)
    assert seen.newest == Newest(ours(epoch=2, seq=5), "b")
