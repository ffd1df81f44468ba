"""Paths of files stay within the run's folder, and no two keys share a folder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.errors import InvalidInput
from headway.core.stored_file import check_path, folder_name


@pytest.mark.proves("S7")
@pytest.mark.parametrize(
    "path", ["1.jpg", "photos/1.jpg", "a/b/c/d", "ключ/🔑.tar.gz", ".hidden", "a b/c.part.jpg", "~"]
)
def test_plain_path_is_accepted_unchanged(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.proves("S7")
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "has an empty name"),
        ("/etc/passwd", "is absolute"),
        ("..", "must not contain '..'"),
        ("a/../../b", "must not contain '..'"),
        ("./a", r"must not contain '\.'"),
        ("a//b", "has an empty name"),
        ("a/", "has an empty name"),
        ("a\\..\\b", "contains"),
        ("a\0b", "contains NUL"),
        ("a\nb", "contains"),
        ("C:/a", "contains ':'"),
        ("\ud800", "lone surrogate"),
        ("a.part", "ends in .part"),
        ("a/B.PART", "ends in .part"),
        ("con", "device"),
        ("a/NUL.txt", "device"),
        ("Lpt1/a", "device"),
        ("a.", "ends in a dot or a blank"),
        ("a /b", "ends in a dot or a blank"),
        ("a" * 256, "the limit is 255"),
        ("a" * 201, "more than 200 bytes"),
        ("🔑" * 51, "more than 200 bytes"),
    ],
)
def test_path_that_leaves_the_folder_or_is_not_portable_is_refused(path: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refused:
        check_path(path)
    assert refused.value.field == "file"


@pytest.mark.proves("S7")
def test_path_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="file must be text"):
        check_path(b"1.jpg")  # type: ignore[arg-type]


@pytest.mark.proves("S7")
@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("ann", "ann"),
        ("example.org", "example.org"),
        ("Ann", "%41nn"),
        ("a/b", "a%2fb"),
        ("..", "%2e%2e"),
        (".a.", "%2ea%2e"),
        ("50%", "50%25"),
        ("nul", "%6eul"),
        ("é", "%c3%a9"),
    ],
)
def test_folder_of_a_plain_key_is_readable(key: str, name: str) -> None:
    assert folder_name(key) == name


keys = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=255
)


@pytest.mark.proves("S7")
@given(keys, keys)
def test_no_two_keys_share_a_folder_on_case_insensitive_file_systems(
    first: str, second: str
) -> None:
    assert (folder_name(first).lower() == folder_name(second).lower()) == (first == second)


@pytest.mark.proves("S7")
@given(keys)
def test_folder_of_a_key_is_one_name_valid_on_every_file_system(key: str) -> None:
    check_path(f"{folder_name(key)}/1.jpg")
    assert "/" not in folder_name(key)
