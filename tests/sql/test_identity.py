"""I21: which of several nodes is used, and which is refused, on real servers."""

import asyncio
from collections.abc import Callable

import pytest

from headway.adapters.sql.connect import addresses as connect
from headway.adapters.sql.connect.addresses import Connector
from headway.adapters.sql.connect.lineage import OLD_PRIMARY, StreamState
from headway.adapters.sql.connect.server_check import Purpose, RawConnection
from headway.core.errors import DatabaseUnavailable
from tests.sql.nodes import (
    Node,
    connected,
    connector_to,
    database_of,
    epoch_of,
    is_closed,
    make_stream,
    run,
)

MakeNode = Callable[[], Node]


async def refused_by(connector: Connector) -> list[str]:
    with pytest.raises(DatabaseUnavailable) as refused:
        await connector.connect(Purpose.WRITE)
    return list(refused.value.reasons.values())


@pytest.mark.proves("I21")
async def test_before_the_tables_are_made_the_check_is_passed_over(a_node: MakeNode) -> None:
    node = a_node()
    connector = connector_to(node)
    assert await database_of(connector) == node.database
    make_stream(node, epoch=3)
    assert await database_of(connector) == node.database
    assert epoch_of(node) == 3


@pytest.mark.proves("I21")
async def test_another_cluster_is_refused(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    connector = connector_to(node)
    await database_of(connector)
    make_stream(node, cluster_id="theirs", epoch=9, seq=900)
    assert await refused_by(connector) == ["belongs to another cluster"]


@pytest.mark.proves("I21")
async def test_an_emptied_database_is_refused(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    connector = connector_to(node)
    await database_of(connector)
    node.execute("DROP TABLE stream")
    assert await refused_by(connector) == ["belongs to another cluster"]


@pytest.mark.proves("I21")
async def test_a_new_process_does_not_guess_between_two_clusters(a_node: MakeNode) -> None:
    first, second = a_node(), a_node()
    make_stream(first)
    make_stream(second, cluster_id="theirs")
    reasons = await refused_by(connector_to(first, second))
    assert len(reasons) == 2
    assert all("belongs to another cluster" in reason for reason in reasons)


@pytest.mark.proves("I21")
async def test_a_database_restored_from_a_backup_is_refused(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node, seq=50)
    connector = connector_to(node)
    async with connected(connector, Purpose.WRITE) as connection:
        connector.note_commit(60, epoch=0, connection=connection)
    make_stream(node, seq=59)
    (reason,) = await refused_by(connector)
    assert "is behind" in reason
    assert "backup" in reason
    make_stream(node, seq=60)
    assert await database_of(connector) == node.database


@pytest.mark.proves("I21")
async def test_a_failover_raises_the_epoch_and_the_old_home_is_refused_for_ever(
    a_node: MakeNode,
) -> None:
    first, second = a_node(), a_node()
    make_stream(first, seq=50)
    second.leave()
    connector = connector_to(first, second)
    assert await database_of(connector) == first.database
    first.leave()
    second.come_back()
    make_stream(second, seq=49)  # Promoted, without the last commit.
    assert await database_of(connector) == second.database
    assert epoch_of(second) == 1

    first.come_back()
    assert await database_of(connector) == second.database
    second.leave()
    behind, _ = await refused_by(connector)
    assert behind == OLD_PRIMARY
    assert epoch_of(first) == 0


@pytest.mark.proves("I21")
async def test_a_new_process_takes_the_new_primary_beside_the_old_one(a_node: MakeNode) -> None:
    old, new = a_node(), a_node()
    make_stream(old, epoch=0, seq=99)
    make_stream(new, epoch=1, seq=50)
    assert await database_of(connector_to(old, new)) == new.database
    assert (epoch_of(old), epoch_of(new)) == (0, 1)


@pytest.mark.proves("I21")
async def test_two_writable_nodes_of_one_epoch_are_told_apart_once(a_node: MakeNode) -> None:
    old, new = a_node(), a_node()
    make_stream(old, seq=50)
    make_stream(new, seq=60)
    for _ in range(2):
        assert await database_of(connector_to(old, new)) == new.database
        assert (epoch_of(old), epoch_of(new)) == (0, 1)


@pytest.mark.proves("I21")
async def test_with_one_address_the_epoch_is_never_raised(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node, epoch=4)
    connector = connector_to(node)
    for _ in range(3):
        connector.note_disconnect()
        await database_of(connector)
    assert epoch_of(node) == 4


@pytest.mark.proves("I21")
async def test_home_as_expected_ends_the_walk(a_node: MakeNode) -> None:
    home, other = a_node(), a_node()
    make_stream(home)
    connector = connector_to(home, other)
    await database_of(connector)
    make_stream(other, epoch=5)
    assert await database_of(connector) == home.database


@pytest.mark.proves("I21")
async def test_after_a_loss_a_failover_that_others_have_marked_is_followed(
    a_node: MakeNode,
) -> None:
    home, other = a_node(), a_node()
    make_stream(home, seq=50)
    connector = connector_to(home, other)
    await database_of(connector)
    make_stream(other, epoch=1, seq=40)
    connector.note_disconnect()
    assert await database_of(connector) == other.database
    assert epoch_of(other) == 1


@pytest.mark.proves("I21")
async def test_an_old_home_is_not_trusted_again_when_it_was_away(a_node: MakeNode) -> None:
    home, other = a_node(), a_node()
    make_stream(home, seq=50)
    other.leave()
    connector = connector_to(home, other)
    await database_of(connector)
    home.leave()
    await refused_by(connector)
    home.come_back()
    other.come_back()
    make_stream(other, epoch=1, seq=40)  # Somebody else moved there in the meantime.
    assert await database_of(connector) == other.database


@pytest.mark.proves("I21")
async def test_while_an_address_is_silent_it_is_asked_again_from_time_to_time(
    a_node: MakeNode,
) -> None:
    now_s = 0.0
    home, other = a_node(), a_node()
    make_stream(home)
    other.leave()
    connector = connector_to(home, other, clock_s=lambda: now_s)
    assert await database_of(connector) == home.database
    other.come_back()
    make_stream(other, epoch=1)
    now_s = connect.PROBE_ALL_INTERVAL_S - 1
    assert await database_of(connector) == home.database
    now_s = connect.PROBE_ALL_INTERVAL_S
    assert await database_of(connector) == other.database


@pytest.mark.proves("I21")
async def test_a_connection_to_the_old_home_is_no_longer_current(a_node: MakeNode) -> None:
    home, other = a_node(), a_node()
    make_stream(home)
    connector = connector_to(home, other)
    async with connected(connector, Purpose.WRITE) as before:
        assert connector.is_current(before)
        make_stream(other, epoch=1, seq=7)
        connector.note_disconnect()
        async with connected(connector, Purpose.WRITE) as after:
            assert connector.is_current(after)
            assert not connector.is_current(before)
            connector.note_commit(
                99, epoch=0, connection=before
            )  # Too late: it says nothing about the new home.
    assert await database_of(connector) == other.database


@pytest.mark.proves("I21")
async def test_of_many_who_see_a_failover_at_once_one_raises_the_epoch(
    a_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = a_node(), a_node()
    make_stream(first, seq=50)
    second.leave()
    connectors = [connector_to(first, second) for _ in range(4)]
    for connector in connectors:
        await database_of(connector)
    first.leave()
    second.come_back()
    make_stream(second, seq=50)
    found = await asyncio.gather(*(database_of(each) for each in connectors for _ in range(3)))
    assert set(found) == {second.database}
    assert epoch_of(second) == 1
    assert [vars(record)["event"] for record in caplog.records] == ["database_moved"]


@pytest.mark.proves("I21")
async def test_a_commit_during_a_connect_does_not_make_the_node_look_behind(
    a_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = a_node()
    make_stream(node, seq=50)
    connector = connector_to(node)
    async with connected(connector, Purpose.WRITE) as writer:
        read_stream = connector._server.read_stream

        async def read_and_be_overtaken(connection: RawConnection) -> StreamState | None:
            found = await read_stream(connection)
            connector.note_commit(51, epoch=0, connection=writer)
            return found

        monkeypatch.setattr(connector._server, "read_stream", read_and_be_overtaken)
        assert await database_of(connector) == node.database
    make_stream(node, seq=50)
    (reason,) = await refused_by(connector)
    assert "is behind" in reason


@pytest.mark.proves("I21")
async def test_a_connector_serves_a_writer_in_a_loop_of_its_own(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    connector = connector_to(node)

    async def write() -> None:
        async with connected(connector, Purpose.WRITE) as connection:
            for seq in range(1, 200):
                await run(connection, f"UPDATE stream SET seq = {seq}")  # noqa: S608
                connector.note_commit(seq, epoch=0, connection=connection)

    writing = asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(write()))
    while not writing.done():
        assert await database_of(connector) == node.database
    await writing


@pytest.mark.proves("I21")
async def test_a_loss_during_a_look_is_not_forgotten_by_it(
    a_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, other = a_node(), a_node()
    make_stream(home)
    connector = connector_to(home, other)
    read_stream = connector._server.read_stream

    async def read_and_lose_another(connection: RawConnection) -> StreamState | None:
        connector.note_disconnect()
        return await read_stream(connection)

    monkeypatch.setattr(connector._server, "read_stream", read_and_lose_another)
    assert await database_of(connector) == home.database
    make_stream(other, epoch=1)
    assert await database_of(connector) == other.database


@pytest.mark.proves("I8")
async def test_a_node_that_falls_silent_during_the_check_keeps_no_connection(
    a_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = connector_to(a_node())
    opened: list[RawConnection] = []

    async def fall_silent(connection: RawConnection) -> None:
        opened.append(connection)
        raise TimeoutError

    monkeypatch.setattr(connector._server, "read_stream", fall_silent)
    assert await refused_by(connector) == ["gave no answer within 5 s"]
    assert [is_closed(connection) for connection in opened] == [True]


@pytest.mark.proves("I8")
async def test_the_nodes_that_were_not_chosen_keep_no_connection(
    a_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = connector_to(a_node(), a_node())
    read_stream = connector._server.read_stream
    opened: list[RawConnection] = []

    async def note(connection: RawConnection) -> StreamState | None:
        opened.append(connection)
        return await read_stream(connection)

    monkeypatch.setattr(connector._server, "read_stream", note)
    async with connected(connector) as chosen:
        assert [connection is chosen for connection in opened] == [True, False]
        assert [is_closed(connection) for connection in opened] == [False, True]


@pytest.mark.proves("I21")
async def test_a_failover_that_cannot_be_marked_is_not_made(
    a_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = a_node(), a_node()
    make_stream(first, seq=50)
    make_stream(second, seq=50)
    connector = connector_to(first, second)

    async def fall_silent(connection: RawConnection, *, seen_epoch: int, epoch: int) -> bool:
        raise TimeoutError

    monkeypatch.setattr(connector._server, "raise_epoch", fall_silent)
    assert await refused_by(connector) == ["gave no answer within 5 s"]
