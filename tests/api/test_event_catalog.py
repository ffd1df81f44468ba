"""docs/events.md lists every event type with the members of its payload.

`python -m tests.api.test_event_catalog` writes the list.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from headway.api.wire.event_views import EVENT_MODELS
from headway.core.event_payloads import PAYLOADS

PATH: Final = Path(__file__).parents[2] / "docs" / "events.md"
BEGIN: Final = "<!-- The list is generated: python -m tests.api.test_event_catalog -->\n"
END: Final = "<!-- End of the list. -->\n"


def describe_catalog() -> str:
    lines = ["| event | when | payload |", "|---|---|---|"]
    for event_type, payload in PAYLOADS.items():
        when = " ".join((payload.__doc__ or "").split())
        schema = EVENT_MODELS[event_type].model_json_schema(mode="serialization")
        lines.append(f"| `{event_type}` | {when} | {_describe_payload(schema)} |")
    return "\n".join(lines) + "\n"


def _describe_payload(schema: Mapping[str, Any]) -> str:
    content = schema["properties"]["payload"]
    if "$ref" not in content:
        return "any object"
    members = _resolve(content, schema)["properties"]
    required = _resolve(content, schema).get("required", ())
    texts = (
        f"`{name}`{'' if name in required else '?'}: {_describe_type(member, schema)}"
        for name, member in members.items()
    )
    return ", ".join(texts) or "empty"


def _describe_type(member: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "anyOf" in member:
        kinds = [_describe_type(kind, schema) for kind in member["anyOf"]]
        return " or ".join(dict.fromkeys(kinds))
    if "$ref" in member:
        return _describe_type(_resolve(member, schema), schema)
    if values := member.get("enum", [member["const"]] if "const" in member else []):
        return " or ".join(f"`{value}`" for value in values)
    if member.get("type") == "array":
        return f"list of {_describe_type(member['items'], schema)}"
    if "properties" in member:
        return "{" + ", ".join(f"`{name}`" for name in member["properties"]) + "}"
    return str(member.get("type", "any JSON"))


def _resolve(reference: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    return schema["$defs"][reference["$ref"].rpartition("/")[2]]


def replace_catalog(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{describe_catalog()}\n{END}{rest.partition(END)[2]}"


def test_document_lists_every_event_type() -> None:
    text = PATH.read_text(encoding="utf-8")
    assert replace_catalog(text) == text, "run `python -m tests.api.test_event_catalog`"


if __name__ == "__main__":
    PATH.write_text(replace_catalog(PATH.read_text(encoding="utf-8")), encoding="utf-8")
