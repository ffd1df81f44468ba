"""Flows as they were published. A version never changes, so it is read once."""

import asyncio
from typing import Final

from headway.core.errors import FlowNotFound
from headway.core.flow.definition.definition import Flow
from headway.core.flow.parse import read_flow
from headway.ports.flow_reader import FlowReader

FLOW_COUNT_MAX: Final = 500


class Definitions:
    def __init__(self, flows: FlowReader) -> None:
        self._flows = flows
        self._read: dict[tuple[str, int], tuple[Flow, str]] = {}
        self._reading = asyncio.Lock()

    async def flow(self, name: str, version: int) -> Flow:
        """FlowNotFound when there is no such version."""
        return (await self._known(name, version))[0]

    async def version_id(self, name: str, version: int) -> str:
        return (await self._known(name, version))[1]

    async def _known(self, name: str, version: int) -> tuple[Flow, str]:
        known = self._read.get((name, version))
        if known is not None:
            return known
        async with self._reading:  # A thousand tasks may begin with it at the same time.
            known = self._read.get((name, version))
            return known or await self._learn(name, version)

    async def _learn(self, name: str, version: int) -> tuple[Flow, str]:
        saved = await self._flows.version(name, version)
        if saved is None:
            raise FlowNotFound(name, version)
        read = read_flow(saved.definition).flow, saved.id
        if len(self._read) >= FLOW_COUNT_MAX:
            del self._read[next(iter(self._read))]
        self._read[name, version] = read
        return read

    async def newest(self, name: str) -> int:
        """The version that new tasks get; FlowNotFound when there is none."""
        saved = await self._flows.flow(name)
        if saved is None or not saved.published:
            raise FlowNotFound(name)
        return saved.published
