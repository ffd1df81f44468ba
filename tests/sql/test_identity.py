"""Which of several nodes is used, and which is refused, on real servers (I21)."""

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
    is_closed,
    make_connector,
    make_stream,
    open_connection,
    read_database_name,
    read_epoch,
    run,
)

MakeNode = Callable[[], Node]


async def read_refusals(connector: Connector) -> list[str]:
    with pytest.raises(DatabaseUnavailable) as refused:
        await connector.connect(Purpose.WRITE)
    return list(refused.value.reasons.values())


@pytest.mark.proves("I21")
async def test_check_is_skipped_before_the_tables_exist(a_node: MakeNode) -> None:
    node = a_node()
    connector = make_connector(node)
    assert await read_database_name(connector) == node.database
    make_stream(node, epoch=3)
    assert await read_database_name(connector) == node.database
    assert read_epoch(node) == 3


@pytest.mark.proves("I21")
async def test_another_cluster_is_refused(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    connector = make_connector(node)
    await read_database_name(connector)
    make_stream(node, cluster_id="theirs", epoch=9, seq=900)
    assert await read_refusals(connector) == ["belongs to another cluster"]


@pytest.mark.proves("I21")
async def test_emptied_database_is_refused(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    connector = make_connector(node)
    await read_database_name(connector)
    node.execute("DROP TABLE stream")
    assert await read_refusals(connector) == ["belongs to another cluster"]


@pytest.mark.proves("I21")
async def test_new_process_refuses_nodes_of_two_different_clusters(a_node: MakeNode) -> None:
    first, second = a_node(), a_node()
    make_stream(first)
    make_stream(second, cluster_id="theirs")
    reasons = await read_refusals(make_connector(first, second))
    assert len(reasons) == 2
    assert all("belongs to another cluster" in reason for reason in reasons)


@pytest.mark.proves("I21")
async def test_database_restored_from_a_backup_is_refused(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node, seq=50)
    connector = make_connector(node)
    async with open_connection(connector, Purpose.WRITE) as connection:
        connector.note_commit(60, epoch=0, connection=connection)
    make_stream(node, seq=59)
    (reason,) = await read_refusals(connector)
    assert "is behind" in reason
    assert "backup" in reason
    make_stream(node, seq=60)
    assert await read_database_name(connector) == node.database


@pytest.mark.proves("I21")
async def test_failover_increases_the_epoch_and_permanently_excludes_the_old_primary(
    a_node: MakeNode,
) -> None:
    first, second = a_node(), a_node()
    make_stream(first, seq=50)
    second.leave()
    connector = make_connector(first, second)
    assert await read_database_name(connector) == first.database
    first.leave()
    second.come_back()
    make_stream(second, seq=49)  # Promoted, without the last commit.
    assert await read_database_name(connector) == second.database
    assert read_epoch(second) == 1

    first.come_back()
    assert await read_database_name(connector) == second.database
    second.leave()
    behind, _ = await read_refusals(connector)
    assert behind == OLD_PRIMARY
    assert read_epoch(first) == 0


@pytest.mark.proves("I21")
async def test_new_process_uses_the_new_primary_beside_the_old_one(a_node: MakeNode) -> None:
    old, new = a_node(), a_node()
    make_stream(old, epoch=0, seq=99)
    make_stream(new, epoch=1, seq=50)
    assert await read_database_name(make_connector(old, new)) == new.database
    assert (read_epoch(old), read_epoch(new)) == (0, 1)


@pytest.mark.proves("I21")
async def test_newer_of_two_writable_nodes_gets_a_higher_epoch_only_once(a_node: MakeNode) -> None:
    old, new = a_node(), a_node()
    make_stream(old, seq=50)
    make_stream(new, seq=60)
    for _ in range(2):
        assert await read_database_name(make_connector(old, new)) == new.database
        assert (read_epoch(old), read_epoch(new)) == (0, 1)


@pytest.mark.proves("I21")
async def test_epoch_does_not_increase_if_only_one_database_address_is_configured(
    a_node: MakeNode,
) -> None:
    node = a_node()
    make_stream(node, epoch=4)
    connector = make_connector(node)
    for _ in range(3):
        connector.note_disconnect()
        await read_database_name(connector)
    assert read_epoch(node) == 4


@pytest.mark.proves("I21")
async def test_known_primary_is_used_without_checking_other_nodes(a_node: MakeNode) -> None:
    home, other = a_node(), a_node()
    make_stream(home)
    connector = make_connector(home, other)
    await read_database_name(connector)
    make_stream(other, epoch=5)
    assert await read_database_name(connector) == home.database


@pytest.mark.proves("I21")
async def test_failover_recorded_by_another_process_is_followed_after_a_disconnect(
    a_node: MakeNode,
) -> None:
    home, other = a_node(), a_node()
    make_stream(home, seq=50)
    connector = make_connector(home, other)
    await read_database_name(connector)
    make_stream(other, epoch=1, seq=40)
    connector.note_disconnect()
    assert await read_database_name(connector) == other.database
    assert read_epoch(other) == 1


@pytest.mark.proves("I21")
async def test_old_primary_is_not_used_when_it_comes_back_after_a_failover(
    a_node: MakeNode,
) -> None:
    home, other = a_node(), a_node()
    make_stream(home, seq=50)
    other.leave()
    connector = make_connector(home, other)
    await read_database_name(connector)
    home.leave()
    await read_refusals(connector)
    home.come_back()
    other.come_back()
    make_stream(other, epoch=1, seq=40)  # Another process moved there in the meantime.
    assert await read_database_name(connector) == other.database


@pytest.mark.proves("I21")
async def test_unreachable_address_is_checked_again_at_intervals(
    a_node: MakeNode,
) -> None:
    now_s = 0.0
    home, other = a_node(), a_node()
    make_stream(home)
    other.leave()
    connector = make_connector(home, other, clock_s=lambda: now_s)
    assert await read_database_name(connector) == home.database
    other.come_back()
    make_stream(other, epoch=1)
    now_s = connect.PROBE_ALL_INTERVAL_S - 1
    assert await read_database_name(connector) == home.database
    now_s = connect.PROBE_ALL_INTERVAL_S
    assert await read_database_name(connector) == other.database


@pytest.mark.proves("I21")
async def test_connection_to_the_old_primary_is_no_longer_current(a_node: MakeNode) -> None:
    home, other = a_node(), a_node()
    make_stream(home)
    connector = make_connector(home, other)
    async with open_connection(connector, Purpose.WRITE) as before:
        assert connector.is_current(before)
        make_stream(other, epoch=1, seq=7)
        connector.note_disconnect()
        async with open_connection(connector, Purpose.WRITE) as after:
            assert connector.is_current(after)
            assert not connector.is_current(before)
            connector.note_commit(
                99, epoch=0, connection=before
            )  # Too late: this is not a state of the new primary.
    assert await read_database_name(connector) == other.database


@pytest.mark.proves("I21")
async def test_only_one_of_many_processes_increases_the_epoch_at_a_failover(
    a_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = a_node(), a_node()
    make_stream(first, seq=50)
    second.leave()
    connectors = [make_connector(first, second) for _ in range(4)]
    for connector in connectors:
        await read_database_name(connector)
    first.leave()
    second.come_back()
    make_stream(second, seq=50)
    names = await asyncio.gather(
        *(read_database_name(each) for each in connectors for _ in range(3))
    )
    assert set(names) == {second.database}
    assert read_epoch(second) == 1
    assert [vars(record)["event"] for record in caplog.records] == ["epoch_raised"]


@pytest.mark.proves("I21")
async def test_commit_during_a_connect_does_not_make_the_node_seem_behind(
    a_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = a_node()
    make_stream(node, seq=50)
    connector = make_connector(node)
    async with open_connection(connector, Purpose.WRITE) as writer:
        read_stream = connector._server.read_stream

        async def read_and_be_overtaken(connection: RawConnection) -> StreamState | None:
            state = await read_stream(connection)
            connector.note_commit(51, epoch=0, connection=writer)
            return state

        monkeypatch.setattr(connector._server, "read_stream", read_and_be_overtaken)
        assert await read_database_name(connector) == node.database
    make_stream(node, seq=50)
    (reason,) = await read_refusals(connector)
    assert "is behind" in reason


@pytest.mark.proves("I21")
async def test_connector_also_serves_a_writer_that_runs_in_another_event_loop(
    a_node: MakeNode,
) -> None:
    node = a_node()
    make_stream(node)
    connector = make_connector(node)

    async def write() -> None:
        async with open_connection(connector, Purpose.WRITE) as connection:
            for seq in range(1, 200):
                await run(connection, f"UPDATE stream SET seq = {seq}")  # noqa: S608
                connector.note_commit(seq, epoch=0, connection=connection)

    writing = asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(write()))
    while not writing.done():
        assert await read_database_name(connector) == node.database
    await writing


@pytest.mark.proves("I21")
async def test_connection_lost_during_a_check_causes_a_new_check_at_the_next_connect(
    a_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, other = a_node(), a_node()
    make_stream(home)
    connector = make_connector(home, other)
    read_stream = connector._server.read_stream

    async def read_and_lose_another(connection: RawConnection) -> StreamState | None:
        connector.note_disconnect()
        return await read_stream(connection)

    monkeypatch.setattr(connector._server, "read_stream", read_and_lose_another)
    assert await read_database_name(connector) == home.database
    make_stream(other, epoch=1)
    assert await read_database_name(connector) == other.database


@pytest.mark.proves("I8")
async def test_node_that_stops_answering_during_the_check_keeps_no_connection(
    a_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = make_connector(a_node())
    opened: list[RawConnection] = []

    async def fall_silent(connection: RawConnection) -> None:
        opened.append(connection)
        raise TimeoutError

    monkeypatch.setattr(connector._server, "read_stream", fall_silent)
    assert await read_refusals(connector) == ["did not answer within 5 s"]
    assert [is_closed(connection) for connection in opened] == [True]


@pytest.mark.proves("I8")
async def test_nodes_that_were_not_chosen_keep_no_connection(
    a_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = make_connector(a_node(), a_node())
    read_stream = connector._server.read_stream
    opened: list[RawConnection] = []

    async def note(connection: RawConnection) -> StreamState | None:
        opened.append(connection)
        return await read_stream(connection)

    monkeypatch.setattr(connector._server, "read_stream", note)
    async with open_connection(connector) as chosen:
        assert [connection is chosen for connection in opened] == [True, False]
        assert [is_closed(connection) for connection in opened] == [False, True]


@pytest.mark.proves("I21")
async def test_no_failover_happens_if_the_new_epoch_cannot_be_stored(
    a_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = a_node(), a_node()
    make_stream(first, seq=50)
    make_stream(second, seq=50)
    connector = make_connector(first, second)

    async def fall_silent(connection: RawConnection, *, seen_epoch: int, epoch: int) -> bool:
        raise TimeoutError

    monkeypatch.setattr(connector._server, "raise_epoch", fall_silent)
    assert await read_refusals(connector) == ["did not answer within 5 s"]
