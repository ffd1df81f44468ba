"""The JSON Schema of an answer: supported keywords are checked, others are refused."""

from typing import Any

import pytest

from headway.core.answer_schema import check_schema, find_mismatch
from headway.core.errors import InvalidInput

FORM = {
    "title": "How many?",
    "type": "object",
    "required": ["count"],
    "additionalProperties": False,
    "properties": {
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "note": {"type": ["string", "null"], "maxLength": 3},
        "tags": {"type": "array", "items": {"enum": ["a", 1]}, "minItems": 1, "maxItems": 2},
        "sure": {"const": True},
        "size": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]},
    },
}


@pytest.mark.parametrize(
    "answer",
    [
        {"count": 1},
        {"count": 9.0, "note": None, "tags": ["a", 1], "sure": True, "size": None},
        {"count": 2, "note": "abc", "size": 0.5},
    ],
)
def test_answer_that_matches_the_schema_is_accepted(answer: Any) -> None:
    check_schema(FORM)
    assert find_mismatch(FORM, answer) is None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (True, ("answer", "must be of type object")),
        ({}, ("answer.count", "is missing")),
        ({"count": 1, "more": 2}, ("answer.more", "is not allowed")),
        ({"count": True}, ("answer.count", "must be of type integer")),
        ({"count": 1.5}, ("answer.count", "must be of type integer")),
        ({"count": 0}, ("answer.count", "must be at least 1")),
        ({"count": 10}, ("answer.count", "must be at most 9")),
        ({"count": 1, "note": 7}, ("answer.note", "must be of type string or null")),
        ({"count": 1, "note": "abcd"}, ("answer.note", "must have at most 3 characters")),
        ({"count": 1, "tags": []}, ("answer.tags", "must have at least 1 items")),
        ({"count": 1, "tags": ["a"] * 3}, ("answer.tags", "must have at most 2 items")),
        ({"count": 1, "tags": ["a", True]}, ("answer.tags[1]", 'must be one of: "a", 1')),
        ({"count": 1, "sure": 1}, ("answer.sure", "must be true")),
        ({"count": 1, "size": -1}, ("answer.size", "does not match any allowed schema")),
    ],
)
def test_answer_that_violates_the_schema_is_refused_with_the_path_of_the_error(
    answer: Any, error: tuple[str, str]
) -> None:
    assert find_mismatch(FORM, answer) == error


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (True, "schema must be an object"),
        ({"type": "text"}, "schema.type must be one of these, or a list of them: null, boolean"),
        ({"type": []}, "schema.type must be one of these, or a list of them"),
        (
            {"properties": {"a": {"pattern": "x"}}},
            "schema.properties.a.pattern is not a supported",
        ),
        ({"properties": []}, "schema.properties must be an object"),
        ({"items": {"minItems": "2"}}, "schema.items.minItems must be a number"),
        ({"anyOf": []}, "schema.anyOf must be a list of schemas"),
        ({"anyOf": [{"enum": []}]}, r"schema.anyOf\[0\].enum must be a non-empty list"),
        ({"required": "count"}, "schema.required must be a list of names"),
        ({"additionalProperties": {}}, "schema.additionalProperties must be true or false"),
    ],
)
def test_schema_with_unsupported_keywords_is_refused(schema: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        check_schema(schema)
