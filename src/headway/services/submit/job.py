"""Jobs: registered functions with their lane, time limits, retries and parameters."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headway.core.command.admin.lane_limits import LIMIT_MAX
from headway.core.document import Document, check_name, parse_enum
from headway.core.duration import UNSET, TimeLimit, check_limit, check_seconds, resolve_limit
from headway.core.errors import InvalidInput
from headway.core.ids import MAIN_LANE, LaneName
from headway.core.run.run import Recovery
from headway.core.suggest import suggest_names
from headway.services.submit.parameters import EMPTY, Parameters

RETRY_COUNT_MAX: Final = 1_000
JOB_LANE_PREFIX: Final = "job:"
INTERNAL_PREFIX: Final = "headway."
"""The prefix of headway's internal jobs. Users cannot register or submit such a job."""
JobFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter: a random share of a delay that doubles each time."""

    base_s: float = 1.0
    cap_s: float = 60.0

    def __post_init__(self) -> None:
        check_seconds(self.base_s, field="backoff.base_s")
        check_seconds(self.cap_s, field="backoff.cap_s")

    def delay_s(self, attempt: int, *, share: float) -> float:
        """Return the delay in seconds after `attempt` has failed.

        Attempts count from 1. `share` is the random share of the full delay, from 0 to 1.
        """
        doubled_s = self.base_s * 2.0 ** min(attempt - 1, 62)
        return share * min(self.cap_s, doubled_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A registered function and its options."""

    name: str
    function: JobFunction
    lane: LaneName
    concurrency: int | None = None
    """The limit of the job's own lane, or None if the job has no lane of its own."""
    timeout_s: float | None = None
    queue_timeout_s: float | None = None
    retries: int = 0
    backoff: Backoff = Backoff()
    recovery: Recovery = Recovery.RESUME
    parameters: Parameters
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        # Cached: `iscoroutinefunction` is slow and is needed for every run.
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.function))
        for name in ("timeout_s", "queue_timeout_s"):
            check_limit(getattr(self, name), field=name)
        if not isinstance(self.backoff, Backoff):
            raise InvalidInput("backoff", "must be a Backoff, such as Backoff(base_s=1, cap_s=60)")
        retries: object = self.retries
        if not isinstance(retries, int) or not 0 <= retries <= RETRY_COUNT_MAX:
            raise InvalidInput("retries", f"must be 0 to {RETRY_COUNT_MAX:,}")


def is_internal_job(name: str) -> bool:
    return name.startswith(INTERNAL_PREFIX)


def find_job(jobs: Mapping[str, Job], job: str | JobFunction) -> Job:
    """Return the job with this name or function.

    Raise InvalidInput if there is none. The error lists the registered jobs, most similar first.
    """
    name: object = job
    if callable(name):
        return _find_by_function(jobs, name)
    if not isinstance(name, str):
        problem = f"must be a job's name or its function, not {type(name).__name__}"
        raise InvalidInput("job", problem)
    if is_internal_job(name):
        problem = f"{name!r} is internal to headway; start a task of a flow with `flows.start`"
        raise InvalidInput("job", problem)
    if name not in jobs:
        known = suggest_names(name, (job for job in jobs if not is_internal_job(job)))
        raise InvalidInput("job", f"{name!r} is not registered; registered jobs: {known}")
    return jobs[name]


def _find_by_function(jobs: Mapping[str, Job], function: JobFunction) -> Job:
    # Compare by equality, because each access to a method makes a new, equal object.
    matches = [
        job for job in jobs.values() if job.function == function and not is_internal_job(job.name)
    ]
    if len(matches) == 1:
        return matches[0]
    own_name = getattr(function, "__name__", type(function).__name__)
    if matches:
        names = ", ".join(sorted(job.name for job in matches))
        problem = f"the function {own_name!r} is registered several times; name one of: {names}"
        raise InvalidInput("job", problem)
    known = suggest_names(own_name, (name for name in jobs if not is_internal_job(name)))
    problem = f"the function {own_name!r} is not registered with this Headway; add @hw.job to it"
    raise InvalidInput("job", f"{problem}, or name one of: {known}")


def encode_params(
    job: Job, params: dict[str, Any] | None, *, stored: Mapping[str, Any] = EMPTY
) -> Document:
    """Return the validated parameters of a run of `job`. Raise InvalidInput if one is invalid.

    A redacted secret in `params` is replaced by its value in `stored`.
    """
    return job.parameters.encode(check_params(params), stored=stored)


def check_params(params: dict[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of a request. Raise InvalidInput unless they are a dict or None."""
    if params is not None and not isinstance(params, dict):
        raise InvalidInput("params", "must be a dict of names and values")
    return params or {}


def build_job(
    function: JobFunction,
    *,
    name: str | None = None,
    lane: str | None = None,
    concurrency: int | None = None,
    timeout_s: TimeLimit = UNSET,
    queue_timeout_s: float | None = None,
    retries: int = 0,
    backoff: Backoff | None = None,
    recovery: Recovery | str = Recovery.RESUME,
    default_timeout_s: float | None = None,
) -> Job:
    """Return a job of `function`. Raise InvalidInput if an option is invalid.

    `default_timeout_s` is the time limit if `timeout_s` is not given. `timeout_s=None` means that
    the job has no time limit.
    """
    if not callable(function):
        raise InvalidInput("job", "must be a function")
    checked = check_name(function.__name__ if name is None else name, field="job")
    if is_internal_job(checked):
        problem = f"names that begin with {INTERNAL_PREFIX!r} are reserved; choose another name"
        raise InvalidInput(f"job {checked!r}", problem)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidInput(f"job {checked!r}", "must return its result, not yield")
    return Job(
        name=checked,
        function=function,
        lane=_job_lane(checked, lane, concurrency),
        concurrency=concurrency,
        timeout_s=resolve_limit(timeout_s, default_timeout_s),
        queue_timeout_s=queue_timeout_s,
        retries=retries,
        backoff=Backoff() if backoff is None else backoff,
        recovery=parse_enum(Recovery, recovery, field="recovery"),
        parameters=Parameters(function, job=checked),
    )


def _job_lane(job: str, lane: str | None, concurrency: int | None) -> LaneName:
    if concurrency is None:
        return MAIN_LANE if lane is None else LaneName(check_name(lane, field="lane"))
    if lane is not None:
        problem = "cannot be combined with lane; a job with this limit has its own lane"
        raise InvalidInput("concurrency", problem)
    value: object = concurrency
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or not 1 <= concurrency <= LIMIT_MAX:
        raise InvalidInput("concurrency", f"must be a whole number from 1 to {LIMIT_MAX:,}")
    return LaneName(check_name(f"{JOB_LANE_PREFIX}{job}", field="job"))
