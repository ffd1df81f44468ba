"""Names of files and folders: nothing leads out of the run's folder, and no two keys share one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.errors import InvalidInput
from headway.core.stored_file import check_path, folder_name


@pytest.mark.proves("S7")
@pytest.mark.parametrize(
    "path", ["1.jpg", "photos/1.jpg", "a/b/c/d", "ключ/🔑.tar.gz", ".hidden", "a b/c.part.jpg", "~"]
)
def test_a_plain_path_is_taken_as_it_is(path: str) -> None:
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
def test_what_leads_out_or_is_no_name_everywhere_is_refused(path: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refused:
        check_path(path)
    assert refused.value.field == "file"


@pytest.mark.proves("S7")
def test_a_path_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="file: must be text"):
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
def test_a_key_s_folder_is_readable_where_the_key_is_plain(key: str, name: str) -> None:
    assert folder_name(key) == name


keys = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=255
)


@pytest.mark.proves("S7")
@given(keys, keys)
def test_no_two_keys_share_a_folder_whatever_the_file_system_thinks_of_case(
    one: str, other: str
) -> None:
    assert (folder_name(one).lower() == folder_name(other).lower()) == (one == other)


@pytest.mark.proves("S7")
@given(keys)
def test_a_key_s_folder_is_one_name_that_every_file_system_takes(key: str) -> None:
    check_path(f"{folder_name(key)}/1.jpg")
    assert "/" not in folder_name(key)
