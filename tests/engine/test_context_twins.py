"""A plain `def` job gets the same context as an `async def` job, with blocking methods."""

import dis
import inspect
import re
from typing import Any

import pytest

from headway import BlockingChildRun, BlockingRunContext, ChildRun, RunContext
from headway.services.context.blocking_context import BlockingFileWriter
from headway.services.context.run_files import FileWriter

ASYNC_ONLY = {
    "compacting": "a thread cannot be stopped when its time is up",
    "execution": "for the engine",
    "files": "for the engine",
    "finish": "for the engine",
    "end_files": "for the engine",
    "open_files": "for the two contexts",
    "flush": "a blocking write has no buffer",
}
BLOCKING_TYPES = {
    "ChildRun": "BlockingChildRun",
    "AbstractAsyncContextManager[FileWriter]": "Iterator[BlockingFileWriter]",
    "AbstractAsyncContextManager[None]": "Iterator[None]",
}
TWINS = [
    pytest.param(RunContext, BlockingRunContext, id="context"),
    pytest.param(ChildRun, BlockingChildRun, id="child"),
    pytest.param(FileWriter, BlockingFileWriter, id="file"),
]


def public_members(cls: type) -> dict[str, Any]:
    return {name: member for name, member in vars(cls).items() if not name.startswith("_")}


def set_attributes(cls: type) -> set[str]:
    """Return the public attributes that `__init__` sets."""
    instructions = dis.get_instructions(vars(cls)["__init__"])
    names = {step.argval for step in instructions if step.opname == "STORE_ATTR"}
    return {name for name in names if not name.startswith("_")}


def describe(parameter: inspect.Parameter) -> tuple[str, Any, Any, Any]:
    return parameter.name, parameter.kind, parameter.default, parameter.annotation


def return_type(member: Any) -> str:
    annotation = inspect.formatannotation(inspect.signature(member).return_annotation)
    without_modules = re.sub(r"\b(?:\w+\.)+", "", annotation.strip("'"))
    return BLOCKING_TYPES.get(without_modules, without_modules)


def blocking_doc(member: Any) -> str:
    doc = inspect.getdoc(member) or ""
    return doc.replace("async with", "with").replace(
        " Awaits the disk when the buffer is full.", ""
    )


@pytest.mark.parametrize(("original", "blocking"), TWINS)
def test_blocking_class_has_the_same_public_members_as_its_async_original(
    original: type, blocking: type
) -> None:
    expected = public_members(original).keys() | set_attributes(original)
    actual = public_members(blocking).keys() | set_attributes(blocking)
    assert actual == expected - ASYNC_ONLY.keys()


@pytest.mark.parametrize(("original", "blocking"), TWINS)
def test_blocking_method_has_the_signature_and_docstring_of_its_original(
    original: type, blocking: type
) -> None:
    for name, member in public_members(blocking).items():
        twin = vars(original).get(name)
        if twin is None:  # `checkpoint` is an attribute of the original.
            continue
        if callable(member):
            first, second = inspect.signature(twin), inspect.signature(member)
            assert list(map(describe, second.parameters.values())) == list(
                map(describe, first.parameters.values())
            ), name
            assert return_type(member) == return_type(twin), name
        assert inspect.getdoc(member), f"{blocking.__name__}.{name} has no docstring"
        assert inspect.getdoc(member) == blocking_doc(twin), name


@pytest.mark.parametrize(("_", "blocking"), TWINS)
def test_no_blocking_method_returns_a_coroutine(_: type, blocking: type) -> None:
    for name, member in public_members(blocking).items():
        assert not inspect.iscoroutinefunction(member), name
