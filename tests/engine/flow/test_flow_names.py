"""Flows that several programs create under the same name (R5.15)."""

import asyncio

import pytest

from headway import Headway
from tests.engine.flow.scenes import a_flow


def flow_with_text(text: str) -> dict[str, object]:
    node = {"kind": "choice", "params": {"text": text}, "prep": {"input_key": "$params.text"}}
    return a_flow({"copy": node | {"post": {"output_key": "text"}}})


@pytest.mark.proves("R5.15")
async def test_flows_created_at_once_under_one_name_are_separate(database_url: str) -> None:
    async with Headway(database_url) as hw, Headway(database_url) as other:
        flows = await asyncio.gather(
            *(program.flows.create("demo") for program in [hw, other] * 10)
        )
        assert len({flow.id for flow in flows}) == len({flow.name for flow in flows}) == 20
        assert sum(flow.name == "demo" for flow in flows) == 1
        for number, flow in enumerate(flows[:4]):
            await hw.flows.publish(flow.name, flow_with_text(f"program {number}"))
        for number, flow in enumerate(flows[:4]):
            task = await other.flows.start(flow.id)
            assert await task.result(20) == {"text": f"program {number}"}
        listed = {flow.name: flow.id for flow in await other.flows.list()}
        assert listed == {flow.name: flow.id for flow in flows}
