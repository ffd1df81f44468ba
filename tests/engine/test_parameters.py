"""The parameters of a job are those of its function; others are refused (I15)."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from headway import Headway, RunContext
from headway.core.errors import InvalidInput
from tests.engine.scenes import records_of

pytestmark = pytest.mark.backend("sqlite")


class Kind(StrEnum):
    JPG = "jpg"
    PNG = "png"


class Window(BaseModel):
    first: int
    last: int = 9


async def mirror(
    ctx: RunContext,
    url: str,
    kinds: list[Kind] = [Kind.JPG],  # noqa: B006
    *,
    window: Window | None = None,
    since: date | None = None,
    depth: Annotated[int, Field(ge=1, le=3)] = 1,
    order: Literal["new", "old"] = "new",
) -> dict[str, Any]:
    return {
        "url": url,
        "kinds": [type(kind).__name__ for kind in kinds],
        "window": None if window is None else [window.first, window.last],
        "since": None if since is None else since.year,
    }


@pytest.mark.proves("I15")
async def test_parameters_are_converted_to_the_annotated_types(url: str) -> None:
    hw = Headway(url)
    hw.job()(mirror)
    params = {"url": "u", "kinds": ["png"], "window": {"first": 2}, "since": "2026-11-16"}
    async with hw:
        run = await hw.start("mirror", params=params)
        result = await run.result()
    assert result == {"url": "u", "kinds": ["Kind"], "window": [2, 9], "since": 2026}


@pytest.mark.proves("R1.1")
async def test_default_values_are_recorded_with_the_run(url: str) -> None:
    hw = Headway(url)
    hw.job()(mirror)
    async with hw:
        record = await (await hw.start("mirror", params={"url": "u"})).wait_for_end()
    expected = '"kinds":["jpg"],"window":null,"since":null,"depth":1,"order":"new","url":"u"'
    assert record.params == f"{{{expected}}}"


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("params", "field", "problem"),
    [
        ({}, "params.url", "is missing"),
        ({"url": 5}, "params.url", "input should be a valid string"),
        ({"url": "u", "depth": "2"}, "params.depth", "input should be a valid integer"),
        ({"url": "u", "depth": True}, "params.depth", "input should be a valid integer"),
        ({"url": "u", "depth": 4}, "params.depth", "input should be less than or equal to 3"),
        ({"url": "u", "kinds": ["jpg", "gif"]}, "params.kinds[1]", "input should be 'jpg'"),
        ({"url": "u", "window": {}}, "params.window.first", "field required"),
        ({"url": "u", "order": "any"}, "params.order", "input should be 'new' or 'old'"),
        ({"url": "u", "page": 1}, "params.page", "is not a parameter of the job; it takes: url,"),
    ],
)
async def test_an_invalid_parameter_is_named_and_nothing_is_written(
    url: str, params: dict[str, Any], field: str, problem: str
) -> None:
    hw = Headway(url)
    hw.job()(mirror)
    async with hw:
        with pytest.raises(InvalidInput) as refused:
            await hw.start("mirror", params=params)
        assert await records_of(hw) == []
    assert refused.value.field == field
    assert refused.value.problem.startswith(problem)


@pytest.mark.proves("I15")
def test_all_invalid_parameters_are_named_at_once() -> None:
    hw = Headway("sqlite:///:memory:")
    hw.job()(mirror)
    with pytest.raises(InvalidInput) as refused:
        hw.schedule("0 3 * * *", job="mirror", params={"uri": "u", "depth": "2", "page": 1})
    takes = "it takes: url, kinds, window, since, depth, order"
    assert str(refused.value) == (
        f"params.uri is not a parameter of the job; {takes};"
        f" params.page is not a parameter of the job; {takes};"
        " params.url is missing; params.depth: input should be a valid integer"
    )
    fields = [field for field, _ in refused.value.errors]
    assert fields == ["params.uri", "params.page", "params.url", "params.depth"]


@pytest.mark.proves("I19")
def test_an_error_about_many_invalid_parameters_is_shortened() -> None:
    hw = Headway("sqlite:///:memory:")
    hw.job()(mirror)
    with pytest.raises(InvalidInput, match=r"; and 6 more$") as refused:
        hw.schedule("0 3 * * *", job="mirror", params={f"p{number}": 1 for number in range(15)})
    assert str(refused.value).count("params.") == 10


@pytest.mark.proves("I15")
async def test_a_function_with_keyword_parameters_accepts_any_name(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext, **more: Any) -> Any:
        return more

    async with hw:
        assert await (await hw.start("work", params={"a": [1], "b": None})).result() == {
            "a": [1],
            "b": None,
        }


def test_the_schema_of_a_jobs_parameters_can_be_exported(url: str) -> None:
    hw = Headway(url)
    hw.job()(mirror)
    schema = hw.schema("mirror")
    assert schema["required"] == ["url"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["depth"] == {
        "default": 1,
        "maximum": 3,
        "minimum": 1,
        "type": "integer",
    }
    assert set(schema["$defs"]) == {"Kind", "Window"}


def no_context() -> None: ...


def only_by_name(*, ctx: RunContext) -> None: ...


def many(ctx: RunContext, *more: int) -> None: ...


def unknown(ctx: RunContext, when: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


async def yields(ctx: RunContext) -> Any:
    yield 1


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (no_context, "must take the run's context as its first parameter"),
        (only_by_name, "must take the run's context as its first parameter"),
        (many, "cannot be given 'more' by name"),
        (unknown, "has an annotation that cannot be found"),
        (yields, "must return its result, not yield"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_function_that_cannot_be_a_job_is_refused(url: str, function: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        Headway(url).job()(function)


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    "options",
    [{"retries": -1}, {"timeout_s": -1.0}, {"queue_timeout_s": float("nan")}, {"lane": " "}],
)
def test_invalid_options_of_a_job_are_refused(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        Headway(url).job(**options)(mirror)
