"""Documents and names are accepted as a whole, or refused with the path of the error (I15)."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.document import (
    DEPTH_MAX,
    NAME_LENGTH_MAX,
    check_name,
    check_text,
    decode_document,
    encode_document,
)
from headway.core.duration import SECONDS_MAX, check_seconds
from headway.core.errors import InvalidInput

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | storable
documents = st.recursive(
    scalars.filter(lambda value: value not in (math.inf, -math.inf)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(storable, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.proves("S6")
@given(documents)
def test_encoded_document_is_decoded_to_the_same_value(value: Any) -> None:
    assert decode_document(encode_document(value, field="x"), field="x") == value


@pytest.mark.proves("S6")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value"),
        ("{'a': 1}", "Expecting property name"),
        ('{"a": 1} 2', "Extra data"),
        ('{"a": {"b": 1, "b": 2}}', "the name 'b' occurs twice"),
        ("[NaN]", "NaN is not valid JSON"),
        ("[-Infinity]", "-Infinity is not valid JSON"),
        ("[1e400]", "1e400 is out of range"),
        ("[" + "1" * 5_000 + "]", "5,000 digits"),
        (r'["\ud800"]', "lone surrogate"),
        (r'["\u0000"]', "NUL"),
        ("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), "nested deeper"),
        ("[" * 1_000_000, "nested deeper"),
        ('"' + "é" * 600_000 + '"', "1,200,002 bytes"),
    ],
)
def test_json_that_is_not_strict_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as raised:
        decode_document(text, field="body")
    assert raised.value.field.startswith("body")


@pytest.mark.proves("I15")
@given(documents)
def test_encoded_value_decodes_to_the_same_value(value: Any) -> None:
    assert json.loads(encode_document(value, field="params")) == value


@pytest.mark.proves("I15")
@given(documents, st.sampled_from([math.nan, math.inf, b"", "\0", "\ud800", {1: 1}, {"\0": 1}]))
def test_value_with_one_nested_error_is_refused_with_the_path_of_the_error(
    value: Any, invalid: Any
) -> None:
    with pytest.raises(InvalidInput) as refused:
        encode_document({"a": value, "b": [0, {"c": invalid}]}, field="params")
    assert refused.value.field == "params.b[1].c"


def nested(levels: int, bottom: Any) -> Any:
    for _ in range(levels):
        bottom = [bottom]
    return bottom


@pytest.mark.proves("I15")
@pytest.mark.parametrize("bottom", ["text", 1, None, {}, [[]]])
@pytest.mark.parametrize("beside", [[], [[]] * 100, ["[" * 100]], ids=["alone", "wide", "text"])
def test_depth_of_a_document_counts_only_nested_levels(bottom: Any, beside: list[Any]) -> None:
    """The value at the bottom, the values beside it and brackets in text do not count."""
    bottom_depth = {"[[]]": 2, "{}": 1}.get(json.dumps(bottom), 0)
    deepest = nested(DEPTH_MAX - 1 - bottom_depth, bottom)
    encode_document([deepest, *beside], field="params")
    with pytest.raises(InvalidInput, match="nested deeper than 64 levels"):
        encode_document([[deepest], *beside], field="params")


@pytest.mark.proves("I15")
def test_size_is_counted_in_bytes() -> None:
    encode_document("é" * 4, field="params", byte_count_max=10)
    with pytest.raises(InvalidInput, match="is 12 bytes; the limit is 10"):
        encode_document("é" * 5, field="params", byte_count_max=10)


@pytest.mark.proves("I15")
def test_document_is_written_without_blanks_and_unescaped() -> None:
    assert encode_document({"b": [1, "é🚂"], "a": None}, field="p") == '{"b":[1,"é🚂"],"a":null}'


@pytest.mark.proves("I15")
def test_tuple_is_encoded_as_a_list() -> None:
    assert encode_document((1, (2,)), field="params") == "[1,[2]]"


@pytest.mark.proves("I15")
def test_text_that_resembles_an_escaped_nul_is_accepted() -> None:
    assert json.loads(encode_document("\\u0000", field="params")) == "\\u0000"


@pytest.mark.proves("I15")
@pytest.mark.parametrize("name", ["a", " a ", "\ta\n", "\u2003a"])
def test_name_is_trimmed(name: str) -> None:
    assert check_name(name, field="key") == "a"


@pytest.mark.proves("I15")
def test_name_may_have_up_to_255_characters() -> None:
    assert check_name("🚂" * NAME_LENGTH_MAX, field="key") == "🚂" * NAME_LENGTH_MAX
    assert check_name(f" {'k' * NAME_LENGTH_MAX} ", field="key") == "k" * NAME_LENGTH_MAX
    with pytest.raises(InvalidInput, match="key is 256 characters; the limit is 255"):
        check_name("k" * 256, field="key")


@pytest.mark.proves("I15")
@pytest.mark.parametrize("wrong", ["", " ", "\u3000", "\0", "a\0", "\ud800", None, 1, b"a"])
def test_invalid_name_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^key "):
        check_name(wrong, field="key")


@pytest.mark.proves("I15")
def test_text_may_be_empty_and_keeps_its_blanks() -> None:
    assert check_text("", field="by") == ""
    assert check_text(" a ", field="by") == " a "


@pytest.mark.proves("I15")
@pytest.mark.parametrize("seconds", [0, 1e-6, 1, 0.5, SECONDS_MAX])
def test_duration_is_accepted(seconds: float) -> None:
    check_seconds(seconds, field="timeout_s")


@pytest.mark.proves("I15")
@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, -math.inf, SECONDS_MAX + 1])
def test_invalid_duration_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidInput, match=r"^timeout_s "):
        check_seconds(seconds, field="timeout_s")
