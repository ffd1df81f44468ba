"""An unavailable database is reported, and used again once it is back (R4.7)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.adapters.sql.write import writer
from headway.adapters.sql.write.writer_row import lock_writer_row
from headway.core.command.admin.lane_limits import SetLane
from headway.core.errors import DatabaseUnavailable
from headway.core.ids import MAIN_LANE
from headway.core.lane_row import LaneRow
from tests.contract.backends import run_in_thread, upgrade
from tests.sql.nodes import MariaDBNode, Node, PostgresNode


@pytest.fixture
def node(a_node: Callable[[], Node]) -> Node:
    node = a_node()
    run_in_thread(lambda: upgrade(node.url))
    return node


@pytest.fixture
async def store(node: Node) -> AsyncIterator[SqlStore]:
    opened = await open_store([node.url])
    try:
        yield opened
    finally:
        node.come_back()
        await opened.close()


@pytest.mark.proves("R4.7")
async def test_long_outage_is_reported_to_each_waiter_and_writes_succeed_afterwards(
    node: Node, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "OUTAGE_S_MAX", 0.5)
    change = SetLane(name=MAIN_LANE, max_concurrent=5)
    await store.apply(change)
    node.leave()
    node.cut()
    answers = await asyncio.gather(*(store.apply(change) for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [DatabaseUnavailable] * 3
    assert len({id(answer) for answer in answers}) == 3, "each needs a traceback of its own"
    node.come_back()
    assert isinstance(await store.apply(change), LaneRow)


@pytest.mark.proves("I20")
async def test_silent_server_does_not_block_closing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "DEREGISTER_S_MAX", 0.1)
    assert isinstance(node, PostgresNode | MariaDBNode)
    store = await open_store([node.url])
    node.server.pause()
    try:
        async with asyncio.timeout(60):  # Without the limit it would wait forever.
            await store.close()
    finally:
        node.server.resume()


@pytest.mark.proves("I20")
async def test_session_that_ends_while_a_store_is_opened_is_created_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens if the process is paused for longer than the server waits."""
    cuts: list[str] = []

    async def cut_once(*arguments: Any, **options: Any) -> Any:
        if not cuts:
            cuts.append("cut")
            node.cut()
        return await lock_writer_row(*arguments, **options)

    monkeypatch.setattr(writer, "lock_writer_row", cut_once)
    store = await open_store([node.url])
    try:
        assert cuts
        assert isinstance(await store.apply(SetLane(name=MAIN_LANE, max_concurrent=5)), LaneRow)
    finally:
        await store.close()
