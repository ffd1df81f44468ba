"""The catalog of flows: check definitions, publish them in versions, and read them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headway.core.command.flow.publish import PublishFlow
from headway.core.command.protocol import RevisionMismatch
from headway.core.document import NAME_LENGTH_MAX, check_name, parse_enum
from headway.core.errors import FlowNotFound, InvalidFlow, RevisionConflict
from headway.core.flow.canonical import canonical_json
from headway.core.flow.definition.definition import ErrorPolicy
from headway.core.flow.definition.diagnostics import Diagnostic
from headway.core.flow.definition.graph import AvailableCallees
from headway.core.flow.definition.mermaid import to_mermaid
from headway.core.flow.definition_schema import definition_schema
from headway.core.flow.engine.records import (
    FLOW_PREFIX,
    VERSION_PREFIX,
    SavedFlow,
    SavedVersion,
    VersionStatus,
    VersionSummary,
)
from headway.core.flow.parse import ParsedFlow, parse_flow
from headway.ports.id_source import IdSource
from headway.services.flow.driver import FlowServices
from headway.services.flow.functions import Functions
from headway.services.flow.open_flows import OpenFlows

Definition = str | Mapping[str, Any]
FLOW_COUNT_MAX: Final = 1_000
"""How many existing flows are read to check the references of a new definition."""
VERSION_LENGTH_MAX: Final = 11
"""A number with this many digits or more in an id is not a version number."""
NAME_SUFFIX_LENGTH: Final = 12
"""How many characters of a random id are appended to a flow name that is taken."""


@dataclass(frozen=True, slots=True)
class PublishedFlow:
    name: str
    id: str
    version: int
    version_id: str
    revision: int
    digest: str
    is_new: bool
    """False if the newest version of the flow already had this definition."""
    warnings: tuple[Diagnostic, ...]
    """Problems that are no reason to refuse the definition, each with its path."""
    unknown_fields: tuple[Diagnostic, ...]
    """The warnings about fields that have no effect."""


class EffectiveDefinition(NamedTuple):
    text: str
    warnings: tuple[Diagnostic, ...]


class FlowCatalog:
    """Publishes and reads flows. The methods need an open Headway."""

    def __init__(self, ids: IdSource, opened: Callable[[], OpenFlows]) -> None:
        """Create a catalog. `opened` raises RuntimeError if Headway is not open."""
        self.functions = Functions()
        self._ids = ids
        self._opened = opened

    @property
    def services(self) -> FlowServices:
        return self._opened().services

    async def validate(
        self,
        definition: Definition,
        *,
        strict: bool = False,
        default_policy: ErrorPolicy = ErrorPolicy.FAIL,
    ) -> tuple[Diagnostic, ...]:
        """Return the warnings about a definition that could be published.

        Raise InvalidFlow with every error if the definition could not be published. If `strict` is
        set, also raise InvalidFlow with every warning. `default_policy` is the error policy of a
        definition that has none.
        """
        parsed = await self._parse(definition, strict=strict, default_policy=default_policy)
        return parsed.warnings

    async def publish(
        self,
        name: str,
        definition: Definition,
        *,
        expected_revision: int | None = None,
        status: VersionStatus | str = VersionStatus.PUBLISHED,
        version: int | None = None,
        strict: bool = False,
        default_policy: ErrorPolicy = ErrorPolicy.FAIL,
        by: str = "",
    ) -> PublishedFlow:
        """Store `definition` as the newest version of a flow. Running tasks keep their version.

        Raise InvalidFlow with every error or, if `strict` is set, with every warning. Raise
        RevisionConflict if the flow is not at `expected_revision`; 0 means that the flow must be
        new. `default_policy` is the error policy of a definition that has none, and is stored with
        the definition.
        """
        parsed = await self._parse(definition, strict=strict, default_policy=default_policy)
        name, _ = await self.resolve(name)
        return await self._publish(
            name,
            parsed,
            expected_revision=expected_revision,
            status=parse_enum(VersionStatus, status, field="status"),
            version=version,
            by=by,
        )

    async def create(self, name: str, *, by: str = "") -> PublishedFlow:
        """Create a flow without a version. If the name is taken, use a variant of the name.

        Two programs that choose the same name therefore never publish into one flow. A caller that
        repeats the call after a lost answer creates a second flow, and uses only one of them.
        """
        name = candidate = check_name(name, field="name")
        while True:  # Until a name is free. The first variant nearly always is.
            try:
                return await self._publish(candidate, None, expected_revision=0, by=by)
            except RevisionConflict:
                suffix = f"-{self._ids.run_id()[-NAME_SUFFIX_LENGTH:]}"
                candidate = f"{name[: NAME_LENGTH_MAX - len(suffix)]}{suffix}"

    async def _publish(
        self,
        name: str,
        parsed: ParsedFlow | None,
        *,
        expected_revision: int | None = None,
        status: VersionStatus = VersionStatus.PUBLISHED,
        version: int | None = None,
        by: str = "",
    ) -> PublishedFlow:
        text = None if parsed is None else canonical_json(parsed.flow)
        digest = "" if text is None else hashlib.sha256(text.encode()).hexdigest()
        command = PublishFlow(
            name=name,
            flow_id=f"{FLOW_PREFIX}{self._ids.run_id()}",
            definition=text,
            digest=digest,
            status=status,
            version=version,
            expected_revision=expected_revision,
            by=by,
        )
        answer = await self.services.store.apply(command)
        if isinstance(answer, RevisionMismatch):
            raise RevisionConflict(f"flow {name!r}", answer.revision)
        self._opened().register_job()
        return PublishedFlow(
            command.name,
            answer.flow_id,
            answer.version,
            answer.version_id,
            answer.revision,
            digest,
            answer.is_new,
            () if parsed is None else parsed.warnings,
            () if parsed is None else parsed.unknown_fields,
        )

    async def _parse(
        self, definition: Definition, *, strict: bool, default_policy: ErrorPolicy
    ) -> ParsedFlow:
        flow_names = [
            flow.name for flow in await self.services.flow_reader.flows(limit=FLOW_COUNT_MAX)
        ]
        service_names = await self.services.workers.read_offered_services()
        available = AvailableCallees(
            services=service_names, functions=self.functions.names, flows=flow_names
        )
        parsed = parse_flow(definition, available=available, default_policy=default_policy)
        if strict and parsed.warnings:
            raise InvalidFlow(parsed.warnings)
        return parsed

    async def list(self, *, limit: int = 100, after: str = "") -> Sequence[SavedFlow]:
        """Return at most `limit` flows whose names follow `after`, in the order of their names."""
        return await self.services.flow_reader.flows(limit=limit, after=after)

    async def get(self, name: str) -> SavedFlow:
        name, _ = await self.resolve(name)
        flow = await self.services.flow_reader.flow(name)
        if flow is None:
            raise FlowNotFound(name)
        return flow

    async def resolve(self, name: str, version: int | None = None) -> tuple[str, int | None]:
        """Return the name and the version of a flow, given its name or an id.

        The paths at the root of the HTTP API use the ids `flow-…` and `ver-…`. A flow that has such
        an id as its name takes precedence. Any other name is returned unchanged.
        """
        if not name.startswith((FLOW_PREFIX, VERSION_PREFIX)):
            return name, version
        if await self.services.flow_reader.flow(name) is not None:
            return name, version
        flow_id, number = name, ""
        if name.startswith(VERSION_PREFIX):
            own_id, _, number = name.removeprefix(VERSION_PREFIX).rpartition("-")
            flow_id = f"{FLOW_PREFIX}{own_id}"
        flow = await self.services.flow_reader.flow_by_id(flow_id)
        if flow is None:
            return name, version
        if version is None and number.isdecimal() and len(number) < VERSION_LENGTH_MAX:
            version = int(number)
        return flow.name, version

    async def get_by_id(self, flow_id: str) -> SavedFlow:
        flow = await self.services.flow_reader.flow_by_id(flow_id)
        if flow is None:
            raise FlowNotFound(flow_id)
        return flow

    async def version(self, name: str, version: int | None = None) -> SavedVersion:
        """Return one version of a flow with its definition, by default the published version.

        Raise FlowNotFound if there is no such flow or version.
        """
        name, version = await self.resolve(name, version)
        number = (await self.get(name)).published if version is None else version
        saved = await self.services.flow_reader.version(name, number)
        if saved is None:
            raise FlowNotFound(name, version)
        return saved

    async def definition(self, name: str, version: int | None = None) -> EffectiveDefinition:
        """Return a version's effective definition, including the error policy, and its warnings.

        If the version was stored before error policies existed, its stored text contains no policy.
        """
        saved = await self.version(name, version)
        stored = ErrorPolicy.FOLLOW_DEFAULT
        parsed = await self._parse(saved.definition, strict=False, default_policy=stored)
        return EffectiveDefinition(canonical_json(parsed.flow), parsed.warnings)

    async def versions(
        self, name: str, *, limit: int = 100, before: int | None = None
    ) -> Sequence[VersionSummary]:
        """Return a flow's versions that precede `before`, newest first, without definitions."""
        flow = await self.get(name)
        return await self.services.flow_reader.versions(flow.name, limit=limit, before=before)

    async def graph(self, name: str, version: int | None = None) -> str:
        """Return a Mermaid diagram of a version of a flow, by default the published version."""
        saved = await self.version(name, version)
        return to_mermaid(await self.services.definitions.flow(saved.flow, saved.version))

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of definitions, for editors."""
        return definition_schema()
