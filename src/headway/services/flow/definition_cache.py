"""A cache of parsed flow versions. Each version is read once, because it never changes."""

import asyncio
from typing import Final

from headway.core.errors import FlowNotFound
from headway.core.flow.definition.definition import Flow
from headway.core.flow.parse import parse_flow
from headway.ports.flow_reader import FlowReader

FLOW_COUNT_MAX: Final = 500


class DefinitionCache:
    def __init__(self, flows: FlowReader) -> None:
        self._flow_reader = flows
        self._cache: dict[tuple[str, int], tuple[Flow, str]] = {}
        self._load_lock = asyncio.Lock()

    async def flow(self, name: str, version: int) -> Flow:
        """Return one version of a flow, parsed. Raise FlowNotFound if it does not exist."""
        return (await self._get(name, version))[0]

    async def version_id(self, name: str, version: int) -> str:
        return (await self._get(name, version))[1]

    async def _get(self, name: str, version: int) -> tuple[Flow, str]:
        cached = self._cache.get((name, version))
        if cached is not None:
            return cached
        async with self._load_lock:  # Load once even if many tasks start at the same time.
            cached = self._cache.get((name, version))
            return cached or await self._load(name, version)

    async def _load(self, name: str, version: int) -> tuple[Flow, str]:
        saved = await self._flow_reader.version(name, version)
        if saved is None:
            raise FlowNotFound(name, version)
        loaded = parse_flow(saved.definition).flow, saved.id
        if len(self._cache) >= FLOW_COUNT_MAX:
            del self._cache[next(iter(self._cache))]
        self._cache[name, version] = loaded
        return loaded

    async def read_newest_version(self, name: str) -> int:
        """Return the version that new tasks of a flow get. Raise FlowNotFound if there is none."""
        saved = await self._flow_reader.flow(name)
        if saved is None or not saved.published:
            raise FlowNotFound(name)
        return saved.published
