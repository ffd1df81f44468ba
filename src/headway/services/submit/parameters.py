"""What a job takes: the signature of its function, checked before anything is written."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NotRequired, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from typing_extensions import TypedDict

from headway.core.document import Document, encode_document
from headway.core.errors import InvalidInput
from headway.core.secret import mark_secrets, reveal

ERROR_COUNT_MAX: Final = 10
EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})
_NAMED_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Parameters:
    """The parameters after the first, which is the context.

    Values are checked strictly, as JSON: "5" and true are no integers, a date is a text.
    """

    def __init__(self, function: Callable[..., Any], *, job: str) -> None:
        place = f"job {job!r}"
        context, *others = _read_parameters(function, place)
        if context.kind not in (*_NAMED_KINDS[:1], inspect.Parameter.POSITIONAL_ONLY):
            raise InvalidInput(place, "must take the run's context first")
        hints = _read_hints(function, place)
        self._adapters: dict[str, TypeAdapter[Any]] = {}
        self._required: list[str] = []
        self._defaults: dict[str, Any] = {}
        self._allows_extra = False
        self._secret_names: list[str] = []
        for parameter in others:
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                self._allows_extra = True
                continue
            if parameter.kind not in _NAMED_KINDS:
                raise InvalidInput(place, f"cannot be given {parameter.name!r} by name")
            self._add_parameter(parameter, hints.get(parameter.name, Any), place)
        self._adapter = self._build_adapter({one.name: hints.get(one.name, Any) for one in others})

    def _build_adapter(self, hints: dict[str, Any]) -> TypeAdapter[dict[str, Any]]:
        """All parameters as one object, read in one go."""
        types = {
            name: hints[name] if name in self._required else NotRequired[hints[name]]
            for name in self._adapters
        }
        make: Any = TypedDict
        kind = make("Params", types)
        kind.__pydantic_config__ = ConfigDict(extra="allow" if self._allows_extra else "forbid")
        return TypeAdapter(kind)

    def _add_parameter(self, parameter: inspect.Parameter, hint: Any, place: str) -> None:
        name = parameter.name
        try:
            self._adapters[name] = TypeAdapter(hint)
        except PydanticUserError as error:
            problem = f"has a parameter {name!r} whose type cannot be checked"
            raise InvalidInput(place, problem) from error
        if _is_secret(self._adapters[name], f"{place}, parameter {name!r}"):
            self._secret_names.append(name)
        if parameter.default is inspect.Parameter.empty:
            self._required.append(name)
            return
        if name in self._secret_names:
            return  # Nobody shall read it in a document.
        try:
            default = self._adapters[name].dump_python(parameter.default, mode="json")
            encode_document(default, field=name)
        except (ValueError, InvalidInput):
            return  # It stays the function's own business.
        self._defaults[name] = default

    def encode(self, given: Mapping[str, Any], *, stored: Mapping[str, Any] = EMPTY) -> Document:
        """The parameters as they are now, defaults included; InvalidInput names what is wrong.

        A secret of which is only said that it is set is as in `kept`.
        """
        values = {**self._defaults, **self.seal_secrets(given, stored=stored)}
        document = encode_document(values, field="params")
        self.parse(document)
        return document

    def seal_secrets(
        self, given: Mapping[str, Any], *, stored: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Those that are annotated as secrets (`pydantic.SecretStr`) marked as such."""
        return (
            mark_secrets(given, self._secret_names, stored=stored) if self._secret_names else given
        )

    def mark_secrets(self, document: str) -> str:
        """What was kept as `document`, its secrets marked; however long that makes it."""
        if not self._secret_names:
            return document
        params = json.loads(document)
        return json.dumps(
            mark_secrets(params, self._secret_names, stored=params), ensure_ascii=False
        )

    def parse(self, document: str) -> dict[str, Any]:
        """The arguments for the function; InvalidInput names every field that is wrong."""
        try:
            if self._secret_names:
                document = json.dumps(reveal(document))
            return self._adapter.validate_json(document, strict=True)
        except ValidationError as error:
            raise _to_invalid_input(self._list_errors(error)) from None

    def _list_errors(self, error: ValidationError) -> list[tuple[str, str]]:
        """The first of each parameter: those that are unknown, those that are missing, the rest."""
        faults: dict[str, tuple[int, str, str]] = {}
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            name, *inner = fault["loc"]
            kind = "" if inner else fault["type"]
            if kind == "extra_forbidden":
                takes = f"it takes: {', '.join(self._adapters) or 'none'}"
                found = (0, str(name), f"is not a parameter of the job; {takes}")
            elif kind == "missing":
                found = (1, str(name), "is missing")
            else:
                problem = fault["msg"]
                parts = [f"[{one}]" if isinstance(one, int) else f".{one}" for one in inner]
                found = (2, f"{name}{''.join(parts)}", problem[0].lower() + problem[1:])
            faults.setdefault(str(name), found)
        ordered = sorted(faults.values(), key=lambda fault: fault[0])
        return [(place, problem) for _, place, problem in ordered]

    def schema(self) -> dict[str, Any]:
        """A JSON Schema of the parameters."""
        inputs = [(name, "validation", adapter) for name, adapter in self._adapters.items()]
        made, shared = TypeAdapter.json_schemas(inputs)  # type: ignore[arg-type]
        properties = {name: made[name, "validation"] for name in self._adapters}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        for name, default in self._defaults.items():
            properties[name] = {**properties[name], "default": default}
        schema["required"] = list(self._required)
        schema["additionalProperties"] = self._allows_extra
        return {**schema, **({"$defs": shared["$defs"]} if "$defs" in shared else {})}


def _is_secret(adapter: TypeAdapter[Any], place: str) -> bool:
    """Also one that may be missing (`SecretStr | None`); one inside of something is refused."""
    try:
        schema = adapter.json_schema()
    except PydanticUserError:
        return False  # It has none.
    if any(one.get("writeOnly") for one in (schema, *schema.get("anyOf", ()))):
        return True
    if '"writeOnly": true' in json.dumps(schema):
        raise InvalidInput(place, "has a secret inside; make it a parameter of its own")
    return False


def _to_invalid_input(faults: Sequence[tuple[str, str]]) -> InvalidInput:
    """One sentence for all of them, as far as a sentence goes."""
    (place, problem), *others = faults[:ERROR_COUNT_MAX]
    more = [f"params.{place}: {problem}" for place, problem in others]
    if len(faults) > ERROR_COUNT_MAX:
        more.append(f"and {len(faults) - ERROR_COUNT_MAX} more")
    return InvalidInput(f"params.{place}", "; ".join((problem, *more)))


def _read_parameters(function: Callable[..., Any], place: str) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise InvalidInput(place, "must take the run's context first")
    return parameters


def _read_hints(function: Callable[..., Any], place: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidInput(place, f"has an annotation that cannot be found: {error}") from error
