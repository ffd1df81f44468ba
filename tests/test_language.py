"""Ordinary English, one name per class, and suffixes that mean one thing (docs/glossary.md).

`BUDGETS` are upper limits for words that are sometimes right. Lower them; do not raise them.
"""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

import pytest

from tests.test_tidy import ROOT, Source, sources

WORDS: Final = {
    "whoever": re.compile(r"\b(?:whoever|whomever|whichever)\b", re.IGNORECASE),
    "somebody": re.compile(r"\b(?:some|no|any)body\b", re.IGNORECASE),
    "tell, say": re.compile(r"\b(?:tells?|told|says?|said)\b", re.IGNORECASE),
    "archaic": re.compile(
        r"\b(?:anew|afresh|for ever|besides|of late|in good order|all the same)\b", re.IGNORECASE
    ),
    "headless clause": re.compile(r"(?:^|[.:;] )(?:What|Who)\b(?![^.]*\?)", re.MULTILINE),
    "opens with Of": re.compile(r"(?:^|\. )Of ", re.MULTILINE),
}
BUDGETS: Final = {
    "whoever": 4,
    "somebody": 8,
    "tell, say": 20,
    "archaic": 0,
    "headless clause": 10,
    "opens with Of": 0,
}
"""How often each may occur in the comments and docstrings of `src`."""
NEVER_SHOWN: Final = ("whoever", "somebody", "tell, say", "archaic")
"""Never in error messages, log events, command-line help and names of tests."""
MODULE_COUNT_MAX: Final = 15
ACTORS: Final = frozenset({"answered_by", "canceled_by", "requested_by", "set_by"})
"""Names that end in `_by`: the person or program that did it."""
FLAG: Final = re.compile(r"\b(?:bool|Flag|TypeGuard|Callable)\b")
"""In annotations of names that begin with `is_` or `has_`. A table stores a bool as a `Flag`."""
NOT_OURS: Final = frozenset({"order_by", "group_by"})


def comments(source: Source) -> Iterator[str]:
    """Yield the comments and docstrings of a module, those of its attributes included."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")
    for node in ast.walk(source.tree):
        for statement in _body(node):
            if isinstance(statement, ast.Expr) and _is_text(statement.value):
                yield ast.literal_eval(statement.value)


def _body(node: ast.AST) -> list[ast.stmt]:
    body = getattr(node, "body", [])
    return body if isinstance(body, list) else []


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def shown_texts(source: Source) -> Iterator[str]:
    """Yield the string literals of a module, except docstrings: messages, events and help."""
    docstrings = {
        id(statement.value)
        for node in ast.walk(source.tree)
        for statement in _body(node)
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(source.tree):
        if _is_text(node) and id(node) not in docstrings:
            assert isinstance(node, ast.Constant)
            yield str(node.value)


def product() -> list[Source]:
    return [source for source in sources() if source.is_product]


@pytest.mark.parametrize("word", BUDGETS)
def test_comments_and_docstrings_use_ordinary_words(word: str) -> None:
    uses = [
        f"{source.name}: {match.group()!r} in {text[:60]!r}"
        for source in product()
        for text in comments(source)
        for match in WORDS[word].finditer(text)
    ]
    assert len(uses) <= BUDGETS[word], "\n".join(uses)


@pytest.mark.parametrize("word", NEVER_SHOWN)
def test_messages_events_and_help_use_ordinary_words(word: str) -> None:
    uses = [
        f"{source.name}: {text[:80]!r}"
        for source in product()
        if "/migrations/versions/" not in source.name
        for text in shown_texts(source)
        if WORDS[word].search(text.replace("_", " ")) and (" " in text or "_" in text)
    ]
    assert uses == []


@pytest.mark.parametrize("word", NEVER_SHOWN)
def test_names_of_tests_use_ordinary_words(word: str) -> None:
    names = [
        f"{source.name}: {node.name}"
        for source in sources()
        if not source.is_product
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and WORDS[word].search(node.name.replace("_", " "))
    ]
    assert names == []


def test_no_class_name_is_used_twice() -> None:
    homes = defaultdict(list)
    for source in product():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(source.name)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(
        source.path.parent.relative_to(ROOT).as_posix()
        for source in product()
        if source.path.stem != "__init__"
    )
    assert {folder: n for folder, n in counts.items() if n > MODULE_COUNT_MAX} == {}


def annotated_names(source: Source) -> Iterator[tuple[str, str]]:
    """Yield names with their annotations: fields, variables, parameters and functions."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AnnAssign):
            name = ast.unparse(node.target).rpartition(".")[2]
            yield name, ast.unparse(node.annotation)
        elif isinstance(node, ast.arg) and node.annotation is not None:
            yield node.arg, ast.unparse(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.name, ast.unparse(node.returns)


def test_names_that_begin_with_is_or_has_are_bools() -> None:
    others = [
        f"{source.name}: {name}: {annotation}"
        for source in product()
        for name, annotation in annotated_names(source)
        if re.match(r"_?(?:is|has)_", name) and not FLAG.search(annotation)
    ]
    assert others == []


def test_names_that_end_in_by_are_used_only_for_actors() -> None:
    others = {
        f"{source.name}: {name}"
        for source in product()
        if "/migrations/versions/" not in source.name
        for node in ast.walk(source.tree)
        for name in _names(node)
        if name.endswith("_by") and name not in ACTORS | NOT_OURS
    }
    assert others == set()


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case _:
            pass
