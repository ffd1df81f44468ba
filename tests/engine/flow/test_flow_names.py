"""Flows that programs create under a name of their choice (R5.15)."""

import asyncio

import pytest

from headway import Headway
from tests.engine.flow.scenes import a_flow


def saying(text: str) -> dict[str, object]:
    node = {"kind": "choice", "params": {"said": text}, "prep": {"input_key": "$params.said"}}
    return a_flow({"say": node | {"post": {"output_key": "said"}}})


@pytest.mark.proves("R5.15")
async def test_flows_created_at_once_under_one_name_are_each_their_creators_own(place: str) -> None:
    async with Headway(place) as hw, Headway(place) as beside:
        made = await asyncio.gather(*(one.flows.create("demo") for one in [hw, beside] * 10))
        assert len({flow.id for flow in made}) == len({flow.name for flow in made}) == 20
        assert sum(flow.name == "demo" for flow in made) == 1
        for number, flow in enumerate(made[:4]):
            await hw.flows.publish(flow.name, saying(f"program {number}"))
        for number, flow in enumerate(made[:4]):
            task = await beside.flows.start(flow.id)
            assert await task.result(20) == {"said": f"program {number}"}
        listed = {flow.name: flow.id for flow in await beside.flows.list()}
        assert listed == {flow.name: flow.id for flow in made}
