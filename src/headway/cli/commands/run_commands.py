"""`headway run …`: submit, show and cancel runs, and exchange messages with them."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter, Token, convert

from headway.cli.client.api_client import ApiError, Client, quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.commands.watch import watch_run
from headway.cli.options import (
    AppOption,
    DeleteFilesOption,
    IdempotencyKeyOption,
    JobArgument,
    JsonOption,
    LimitOption,
    ReasonOption,
    RunIdArgument,
    WatchOption,
    files_on_cancel,
)
from headway.cli.output.printing import (
    format_age,
    is_terminal,
    print_fields,
    print_indented,
    print_json,
    print_list,
    print_result,
    shorten,
    state_label,
)
from headway.cli.typed_values import parse_value, parse_values
from headway.core.errors import InvalidInput
from headway.core.run.admission import OnConflict
from headway.core.run.run import OnExistingOutput, RunMode
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.core.run.window import Delivery

NO_JOBS_HINT: Final = (
    "name your jobs with --app module:name, or a server that has them with HEADWAY_URL"
)
STATUS_ALIASES: Final = {"done": RunStatus.SUCCEEDED, "cancelled": RunStatus.CANCELED}
"""States whose name in `run list` differs from the name of the status."""
SHOWN_MESSAGE_COUNT: Final = 100
HIDDEN_FIELDS: Final = ("state", "is_waiting", "is_behind", "seq", "revision", "generation")


def _convert_statuses(type_: Any, tokens: Sequence[Token]) -> Any:
    """Convert statuses. Also accept states as `run list` shows them: `Done` is `succeeded`."""
    names = [token.value.lower() for token in tokens]
    return convert(
        type_,
        [
            token.evolve(value=STATUS_ALIASES.get(name, name))
            for token, name in zip(tokens, names, strict=True)
        ],
    )


StatusOption = Annotated[
    Sequence[RunStatus],
    Parameter(
        converter=_convert_statuses,
        name_transform=str.lower,
        negative=(),
        show_default=False,
        help="Only runs with this status, or with a state as the list shows it, such as `Done`."
        " Repeat the option for several.",
    ),
]
KeyOption = Annotated[
    str | None,
    Parameter(
        help="The key of the run. At most one run per key is active. Default: a key of its own."
    ),
]
ContinueOption = Annotated[
    bool,
    Parameter(
        name="--continue",
        negative=(),
        show_default=False,
        help="Continue from the last checkpoint of the key instead of starting from scratch.",
    ),
]
LaneOption = Annotated[
    str | None, Parameter(help="The lane of the run. Default: the lane of the job.")
]
OnConflictOption = Annotated[OnConflict, Parameter(help="What to do if the key has an active run.")]
OnExistingOutputOption = Annotated[
    OnExistingOutput | None,
    Parameter(help="What to do with output files of earlier runs of the key."),
]
TimeoutOption = Annotated[
    float | Literal["none"] | None,
    Parameter(
        help="The maximum duration of the run in seconds, or `none`. Default: the job's timeout."
    ),
]
QueueTimeoutOption = Annotated[
    float | None, Parameter(help="The maximum time in the queue, in seconds.")
]


async def submit(
    job: JobArgument,
    /,
    *params: str,
    key: KeyOption = None,
    continue_: ContinueOption = False,
    lane: LaneOption = None,
    on_conflict: OnConflictOption = OnConflict.REJECT,
    on_existing_output: OnExistingOutputOption = None,
    timeout_s: TimeoutOption = None,
    queue_timeout_s: QueueTimeoutOption = None,
    idempotency_key: IdempotencyKeyOption = None,
    app: AppOption = None,
    watch: WatchOption = False,
    json: JsonOption = False,
) -> int:
    """Submit a run, and print its id.

    Parameters
    ----------
    params
        Parameters of the job, as `name=value`. A value that is valid JSON is parsed: `count=5` is
        a number. Without parameters, those saved for the key are used.
    """
    body = {
        "job": job,
        "key": key,
        "mode": RunMode.CONTINUE if continue_ else RunMode.START,
        "params": parse_values(params, field="params") if params else None,
        "lane": lane,
        "on_conflict": on_conflict,
        "on_existing_output": on_existing_output,
        "queue_timeout_s": queue_timeout_s,
    }
    if timeout_s is not None:  # Without the field the job's timeout applies; null means none.
        body["timeout_s"] = None if timeout_s == "none" else timeout_s
    async with open_client(app) as client:
        run = await _submit(client, body, idempotency_key)
        if watch:
            return await watch_run(client, run["id"], as_json=json)
    print_result(run, run["id"], as_json=json)
    return 0


async def _submit(client: Client, body: dict[str, Any], idempotency_key: str | None) -> Any:
    try:
        return await client.start("/api/runs", body, idempotency_key=idempotency_key)
    except ApiError as error:
        if error.extensions.get("path") == "job":
            with suppress(ApiError):  # Then report the first error alone.
                if not (await client.get("/api/jobs"))["jobs"]:
                    error.args = (f"{error}; {NO_JOBS_HINT}",)
        raise


async def list_(
    *,
    status: StatusOption = (),
    key: Annotated[str | None, Parameter(help="Only runs of this key.")] = None,
    job: Annotated[str | None, Parameter(help="Only runs of this job.")] = None,
    lane: Annotated[str | None, Parameter(help="Only runs in this lane.")] = None,
    limit: LimitOption = 20,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """List runs, newest first."""
    query = {"status": list(status), "key": key, "job": job, "lane": lane}
    async with open_client(app) as client:
        runs = await client.list_all("/api/runs", "runs", limit=limit, **query)
    headings = ("run", "state", "key", "job", "lane", "age", "progress or error")
    print_list(runs, headings, _columns, empty="no runs found", as_json=json)


def _columns(run: Any) -> tuple[str, ...]:
    progress = shorten(run["error"]["message"]) if run["error"] else shorten(run["progress"])
    names = (run["key"] if run["key"] != run["id"] else "", run["job"], run["lane"])
    return (run["id"], state_label(run), *names, format_age(run["queued_at"]), progress)


async def get(run_id: RunIdArgument, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Show all fields of a run."""
    async with open_client(app) as client:
        run = await client.get(f"/api/runs/{quote_segment(run_id)}")
        if json:
            print_json(run)
            return
        traceback = run.pop("traceback", None) if is_terminal() else None
        fields = {name: value for name, value in run.items() if name not in HIDDEN_FIELDS}
        if run["unread_count"]:
            path = f"/api/runs/{quote_segment(run_id)}/messages"
            sent = await client.list_all(path, "messages", limit=SHOWN_MESSAGE_COUNT)
            unread = [
                message["content"]
                for message in sent
                if not (message["read"] or message["carried"])
            ]
            fields["unread_messages"] = unread or None
    print_fields(fields)
    if traceback:
        print("traceback")
        print_indented(traceback)


async def explain(
    run_id: RunIdArgument, /, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """Explain why a run does not start or continue."""
    async with open_client(app) as client:
        explanation = await client.get(f"/api/runs/{quote_segment(run_id)}/explain")
    if json:
        print_json(explanation)
        return
    print(explanation.pop("sentence"))
    holders = ", ".join(explanation.pop("holder_ids"))
    fields = {name.replace("_", " "): value for name, value in explanation.items()}
    print_fields({**fields, "held by": holders, "source": client.address})


async def cancel(
    run_id: RunIdArgument,
    /,
    *,
    delete_files: DeleteFilesOption = False,
    reason: ReasonOption = "",
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Cancel a run."""
    path = f"/api/runs/{quote_segment(run_id)}"
    await post_cancel(path, app, delete_files=delete_files, reason=reason, as_json=json)


async def post_cancel(
    path: str, app: str | None, *, delete_files: bool, reason: str, as_json: bool
) -> None:
    """Cancel the run or task at `path`, and print the answer."""
    files = files_on_cancel(delete_files=delete_files)
    async with open_client(app) as client:
        try:
            result = await client.post(f"{path}/cancel", {"files": files, "reason": reason})
        except ApiError as error:
            if error.code == "run_not_active":
                with suppress(ApiError):  # Then report the first error alone.
                    error.args = (_describe_end(await client.get(path)),)
            raise
    print_result(result, result["answer"], as_json=as_json)


def _describe_end(run: Any) -> str:
    """Describe why a run or task cannot be canceled."""
    if run["status"] in TERMINAL:
        return f"{run['id']} has already ended: {run['status']}"
    return f"{run['id']} is {run['status']} and about to end by itself"


async def send(
    run_id: RunIdArgument,
    message: str,
    /,
    *,
    when_listening: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Send a message to a run.

    Parameters
    ----------
    message
        The message. It is sent as JSON if it is valid JSON, else as text.
    when_listening
        If the job does not accept messages yet, store the message until it does.
    """
    delivery = Delivery.WHEN_LISTENING if when_listening else Delivery.NOW
    async with open_client(app) as client:
        path = f"/api/runs/{quote_segment(run_id)}/messages"
        sent = await client.post(path, {"content": parse_value(message), "deliver": delivery})
    print_result(sent, "accepted", as_json=json)


async def messages(
    run_id: RunIdArgument,
    /,
    *,
    limit: LimitOption = 100,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """List the messages sent to a run."""
    async with open_client(app) as client:
        path = f"/api/runs/{quote_segment(run_id)}/messages"
        sent = await client.list_all(path, "messages", limit=limit)
    headings = ("sent", "by", "state", "message")
    empty = "no messages were sent to this run"
    print_list(sent, headings, _message_columns, empty=empty, as_json=json)


def _message_columns(message: Any) -> tuple[str, ...]:
    state = "carried over" if message["carried"] else "read" if message["read"] else "unread"
    return (f"{format_age(message['at'])} ago", message["by"], state, shorten(message["content"]))


async def resume(
    run_id: RunIdArgument,
    /,
    *values: str,
    approve: Annotated[bool | None, Parameter(negative="--deny")] = None,
    call_id: str | None = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Answer a question of a run.

    Parameters
    ----------
    values
        Further fields of the answer, as `name=value`.
    approve
        Approve or deny the request.
    call_id
        The id of the question. Needed only if the run has several open questions.
    """
    answer = parse_values(values, field="values", alternatives="--approve or --deny")
    if approve is not None:
        answer["approved"] = approve
    if not answer:
        raise InvalidInput("answer", "give --approve, --deny or name=value")
    async with open_client(app) as client:
        call_id = call_id or await _find_only_interrupt(client, run_id)
        path = f"/api/runs/{quote_segment(run_id)}/resume"
        result = await client.post(path, {"call_id": call_id, **answer})
    print_result(result, "answered", as_json=json)


async def _find_only_interrupt(client: Client, run_id: str) -> str:
    """Return the id of the run's open question. Raise an error unless there is exactly one."""
    interrupts = (await client.get("/api/interrupts", run_id=run_id))["interrupts"]
    if len(interrupts) == 1:
        return str(interrupts[0]["call_id"])
    if interrupts:
        ids = ", ".join(interrupt["call_id"] for interrupt in interrupts)
        problem = f"run {run_id} has several open questions; choose one of: {ids}"
        raise InvalidInput("--call-id", problem)
    await client.get(f"/api/runs/{quote_segment(run_id)}")  # Raises if there is no such run.
    raise ApiError(409, "stale", f"run {run_id} has no open question", {})
