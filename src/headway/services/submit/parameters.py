"""Read a job's parameters from its function's signature, and validate values for them."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NotRequired, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from typing_extensions import TypedDict

from headway.core.document import Document, encode_document
from headway.core.errors import InvalidInput, format_problem
from headway.core.secret import mark_secrets, reveal

ERROR_COUNT_MAX: Final = 10
EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})
_NAMED_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Parameters:
    """The parameters of a job's function except the first one, which is the context.

    Values are validated strictly, as JSON: neither "5" nor true is an integer. A date is given as
    text.
    """

    def __init__(self, function: Callable[..., Any], *, job: str) -> None:
        field = f"job {job!r}"
        context, *others = _read_parameters(function, field)
        if context.kind not in (*_NAMED_KINDS[:1], inspect.Parameter.POSITIONAL_ONLY):
            raise InvalidInput(field, "must take the run's context as its first parameter")
        hints = _read_hints(function, field)
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
                raise InvalidInput(field, f"cannot be given {parameter.name!r} by name")
            self._add_parameter(parameter, hints.get(parameter.name, Any), field)
        self._adapter = self._build_adapter(
            {parameter.name: hints.get(parameter.name, Any) for parameter in others}
        )

    def _build_adapter(self, hints: dict[str, Any]) -> TypeAdapter[dict[str, Any]]:
        """Return an adapter that validates all parameters as one object."""
        types = {
            name: hints[name] if name in self._required else NotRequired[hints[name]]
            for name in self._adapters
        }
        make: Any = TypedDict
        kind = make("Params", types)
        kind.__pydantic_config__ = ConfigDict(extra="allow" if self._allows_extra else "forbid")
        return TypeAdapter(kind)

    def _add_parameter(self, parameter: inspect.Parameter, hint: Any, field: str) -> None:
        name = parameter.name
        try:
            self._adapters[name] = TypeAdapter(hint)
        except PydanticUserError as error:
            problem = f"has a parameter {name!r} whose type cannot be checked"
            raise InvalidInput(field, problem) from error
        if _is_secret(self._adapters[name], f"{field}, parameter {name!r}"):
            self._secret_names.append(name)
        if parameter.default is inspect.Parameter.empty:
            self._required.append(name)
            return
        if name in self._secret_names:
            return  # Secret defaults are never stored.
        try:
            default = self._adapters[name].dump_python(parameter.default, mode="json")
            encode_document(default, field=name)
        except (ValueError, InvalidInput):
            return  # The default is not JSON, so the function applies it itself.
        self._defaults[name] = default

    def encode(self, params: Mapping[str, Any], *, stored: Mapping[str, Any] = EMPTY) -> Document:
        """Return `params` and the defaults as a document. Raise InvalidInput if a value is invalid.

        A redacted secret in `params` is replaced by its value in `stored`.
        """
        values = {**self._defaults, **self.seal_secrets(params, stored=stored)}
        document = encode_document(values, field="params")
        self.parse(document)
        return document

    def seal_secrets(
        self, params: Mapping[str, Any], *, stored: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return `params` with the values of `pydantic.SecretStr` parameters marked as secrets.

        A redacted secret is replaced by its value in `stored`.
        """
        if not self._secret_names:
            return params
        return mark_secrets(params, self._secret_names, stored=stored)

    def mark_secrets(self, document: str) -> str:
        """Return a stored document with its secrets marked. The document may have any length."""
        if not self._secret_names:
            return document
        params = json.loads(document)
        return json.dumps(
            mark_secrets(params, self._secret_names, stored=params), ensure_ascii=False
        )

    def parse(self, document: str) -> dict[str, Any]:
        """Return the arguments for the job's function, parsed from a document of parameters.

        Raise InvalidInput if one is invalid. The error lists the invalid fields.
        """
        try:
            if self._secret_names:
                document = json.dumps(reveal(document))
            return self._adapter.validate_json(document, strict=True)
        except ValidationError as error:
            raise _to_invalid_input(self._list_errors(error)) from None

    def _list_errors(self, error: ValidationError) -> list[tuple[str, str]]:
        """Return the path and the problem of the first error of each parameter.

        Unknown parameters come first, then missing parameters, then parameters with other errors.
        """
        errors: dict[str, tuple[int, str, str]] = {}
        for details in error.errors(include_url=False, include_context=False, include_input=False):
            name, *inner = details["loc"]
            kind = "" if inner else details["type"]
            if kind == "extra_forbidden":
                takes = f"it takes: {', '.join(self._adapters) or 'none'}"
                entry = (0, str(name), f"is not a parameter of the job; {takes}")
            elif kind == "missing":
                entry = (1, str(name), "is missing")
            else:
                problem = details["msg"]
                parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in inner]
                entry = (2, f"{name}{''.join(parts)}", problem[0].lower() + problem[1:])
            errors.setdefault(str(name), entry)
        ordered = sorted(errors.values(), key=lambda entry: entry[0])
        return [(path, problem) for _, path, problem in ordered]

    def schema(self) -> dict[str, Any]:
        """Return a JSON Schema of the parameters."""
        inputs = [(name, "validation", adapter) for name, adapter in self._adapters.items()]
        schemas, shared = TypeAdapter.json_schemas(inputs)  # type: ignore[arg-type]
        properties = {name: schemas[name, "validation"] for name in self._adapters}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        for name, default in self._defaults.items():
            properties[name] = {**properties[name], "default": default}
        schema["required"] = list(self._required)
        schema["additionalProperties"] = self._allows_extra
        return {**schema, **({"$defs": shared["$defs"]} if "$defs" in shared else {})}


def _is_secret(adapter: TypeAdapter[Any], field: str) -> bool:
    """Return whether a parameter is a secret. The secret may be optional (`SecretStr | None`).

    Raise InvalidInput if the secret is nested in another type.
    """
    try:
        schema = adapter.json_schema()
    except PydanticUserError:
        return False  # The type has no JSON Schema.
    if any(option.get("writeOnly") for option in (schema, *schema.get("anyOf", ()))):
        return True
    if '"writeOnly": true' in json.dumps(schema):
        raise InvalidInput(field, "contains a nested secret; make it a separate parameter")
    return False


def _to_invalid_input(errors: Sequence[tuple[str, str]]) -> InvalidInput:
    """Return one InvalidInput that lists the first ERROR_COUNT_MAX of `errors`."""
    shown = [(f"params.{path}", problem) for path, problem in errors[:ERROR_COUNT_MAX]]
    (field, problem), *others = shown
    more = [format_problem(*other) for other in others]
    if len(errors) > ERROR_COUNT_MAX:
        more.append(f"and {len(errors) - ERROR_COUNT_MAX} more")
    error = InvalidInput(field, "; ".join((problem, *more)))
    error.errors = tuple(shown)
    return error


def _read_parameters(function: Callable[..., Any], field: str) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise InvalidInput(field, "must take the run's context as its first parameter")
    return parameters


def _read_hints(function: Callable[..., Any], field: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidInput(field, f"has an annotation that cannot be found: {error}") from error
