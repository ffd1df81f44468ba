"""A run uses the parameters saved for its key unless the caller passes others."""

import json
from typing import Any

import pytest

from headway import Headway, InvalidInput, KeyLocked, RevisionConflict, RunContext
from headway.adapters.sql.read.read_runs import SqlRunReader
from headway.core.batch_state import SavedKey
from headway.core.ids import Key

pytestmark = pytest.mark.backend("sqlite")


def headway_with_jobs(url: str) -> Headway:
    hw = Headway(url)

    @hw.job()
    async def mirror(ctx: RunContext, url: str, page: int = 1) -> list[Any]:
        return [url, page]

    @hw.job()
    async def other(ctx: RunContext, page: int = 1) -> int:
        return page

    return hw


@pytest.mark.proves("R1.7")
async def test_a_start_without_parameters_uses_the_saved_ones(url: str) -> None:
    async with headway_with_jobs(url) as hw:
        await hw.keys.save("ann", job="mirror", params={"url": "a", "page": 7})
        run = await hw.start("mirror", key=" ann ")
        assert (await run.record()).params == '{"page":7,"url":"a"}'
        assert await run.result() == ["a", 7]
        assert await (await hw.continue_("mirror", key="ann")).result() == ["a", 7]
        other = await hw.start("mirror", key="ann", params={"url": "b"})
        assert await other.result() == ["b", 1]
        assert await (await hw.start("other", key="ann")).result() == 1


@pytest.mark.proves("R1.7")
async def test_incomplete_saved_parameters_are_refused_at_the_start(url: str) -> None:
    async with headway_with_jobs(url) as hw:
        await hw.keys.save("ann", job="mirror", params={"page": 7})
        with pytest.raises(InvalidInput, match=r"params\.url is missing"):
            await hw.start("mirror", key="ann")
        with pytest.raises(InvalidInput, match=r"params\.url is missing"):
            await hw.start("mirror", key="bob")


@pytest.mark.proves("R1.7")
async def test_a_start_is_refused_if_its_saved_key_changes_in_the_meantime(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with headway_with_jobs(url) as hw:
        await hw.keys.save("ann", job="mirror", params={"url": "a"})
        read = SqlRunReader.saved_key

        async def read_then_change(reader: SqlRunReader, key: Key) -> SavedKey | None:
            row = await read(reader, key)
            await hw.keys.save("ann", job="mirror", params={"url": "b"})
            return row

        with monkeypatch.context() as patched:
            patched.setattr(SqlRunReader, "saved_key", read_then_change)
            with pytest.raises(RevisionConflict, match="key 'ann' has changed since it was read"):
                await hw.start("mirror", key="ann")
        await hw.lanes.set("main", is_paused=True)
        run = await hw.start("mirror", key="ann")
        with pytest.raises(KeyLocked):
            await hw.keys.save("ann", job="mirror", params={"url": "c"})
        await hw.lanes.set("main", is_paused=False)
        assert await run.result() == ["b", 1]


@pytest.mark.proves("R1.12")
async def test_copied_parameters_replace_all_saved_parameters_of_another_key(url: str) -> None:
    async with headway_with_jobs(url) as hw:
        copied = await hw.keys.save("ann", job="mirror", params={"url": "a", "page": 7})
        await hw.keys.save("bob", job="mirror", params={"page": 3})
        await hw.keys.save("bob", job=copied.job, params=json.loads(copied.params))
        rows = {row.key: json.loads(row.params) for row in await hw.keys.list()}
        assert rows == {"ann": {"url": "a", "page": 7}, "bob": {"url": "a", "page": 7}}
        await hw.keys.save("bob", job="mirror", params={"url": "b"})
        rows = {row.key: json.loads(row.params) for row in await hw.keys.list()}
    assert rows == {"ann": {"url": "a", "page": 7}, "bob": {"url": "b"}}
