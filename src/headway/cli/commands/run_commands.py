"""`headway run …`: submit, look, cancel, talk."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter, Token, convert

from headway.cli.client.api_client import ApiError, Client, quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.commands.watch import watch_run
from headway.cli.output.printing import (
    AppOption,
    IdempotencyKeyOption,
    JsonOption,
    format_age,
    is_terminal,
    print_fields,
    print_indented,
    print_json,
    print_list,
    shorten,
    state_label,
)
from headway.cli.typed_values import parse_value, parse_values
from headway.core.errors import InvalidInput

StatusName = Literal[
    "queued", "running", "cancelling", "succeeded", "failed", "canceled", "timed_out", "rejected"
]
NO_JOBS_HINT: Final = "name them with --app module:name, or a server that has them with HEADWAY_URL"
STATUS_ALIASES: Final = {"done": "succeeded", "cancelled": "canceled"}
"""What a list shows for a state whose own word is another."""
SHOWN_MESSAGE_COUNT: Final = 100
HIDDEN_FIELDS: Final = ("state", "is_waiting", "is_behind", "seq", "revision", "generation")


def _convert_statuses(type_: Any, tokens: Sequence[Token]) -> Any:
    """As the list shows them, too: `Done` is `succeeded`."""
    words = [token.value.lower() for token in tokens]
    said = zip(tokens, words, strict=True)
    return convert(type_, [one.evolve(value=STATUS_ALIASES.get(word, word)) for one, word in said])


StatusOption = Annotated[
    Sequence[StatusName],
    Parameter(
        converter=_convert_statuses, help="Only those in such a state, in these words or as shown."
    ),
]
KeyOption = Annotated[
    str | None, Parameter(help="What must be serial; without one, the run is its own.")
]
ContinueOption = Annotated[
    bool,
    Parameter(name="--continue", negative=(), help="Go on from the last checkpoint of the key."),
]
LaneOption = Annotated[str | None, Parameter(help="Another lane than the job's own.")]
OnConflictOption = Annotated[
    Literal["reject", "enqueue", "replace", "steer", "join"],
    Parameter(help="What to do when the key has an active run."),
]
OnExistingOutputOption = Annotated[
    Literal["ask", "replace", "archive", "delete"] | None,
    Parameter(help="What becomes of the key's earlier output."),
]
TimeoutOption = Annotated[
    float | Literal["none"] | None,
    Parameter(help="How long it may take, in seconds, or `none`. Default: the limit of the job."),
]
QueueTimeoutOption = Annotated[
    float | None, Parameter(help="How long it may wait to start, in seconds.")
]
WatchOption = Annotated[bool, Parameter(negative=(), help="Show what it does until it ends.")]


async def submit(
    job: str,
    /,
    *params: str,
    key: KeyOption = None,
    continue_: ContinueOption = False,
    lane: LaneOption = None,
    on_conflict: OnConflictOption = "reject",
    on_existing_output: OnExistingOutputOption = None,
    timeout_s: TimeoutOption = None,
    queue_timeout_s: QueueTimeoutOption = None,
    idempotency_key: IdempotencyKeyOption = None,
    app: AppOption = None,
    watch: WatchOption = False,
    json: JsonOption = False,
) -> int:
    """Submit a run, and print its id. Ends with 3 when its key is busy.

    Parameters
    ----------
    job
        The kind of work.
    params
        Its parameters, as `name=value`; a value that is JSON is taken as such. None at all: those
        that were saved for the key.
    """
    wanted = {
        "job": job,
        "key": key,
        "mode": "continue" if continue_ else "start",
        "params": parse_values(params, field="params") if params else None,
        "lane": lane,
        "on_conflict": on_conflict,
        "on_existing_output": on_existing_output,
        "queue_timeout_s": queue_timeout_s,
    }
    if timeout_s is not None:  # The job's limit applies; null means no limit.
        wanted["timeout_s"] = None if timeout_s == "none" else timeout_s
    async with open_client(app) as client:
        run = await _submit(client, wanted, idempotency_key)
        if watch:
            return await watch_run(client, run["id"], as_json=json)
    print_json(run) if json else print(run["id"])
    return 0


async def _submit(client: Client, wanted: dict[str, Any], idempotency_key: str | None) -> Any:
    try:
        return await client.start("/api/runs", wanted, idempotency_key=idempotency_key)
    except ApiError as error:
        if error.extensions.get("place") == "job":
            with suppress(ApiError):  # Then there is nothing to add.
                if not (await client.get("/api/jobs"))["jobs"]:
                    error.args = (f"{error}; where are the jobs? {NO_JOBS_HINT}",)
        raise


async def list_(
    *,
    status: StatusOption = (),
    key: Annotated[str | None, Parameter(help="Only those of this key.")] = None,
    job: Annotated[str | None, Parameter(help="Only those of this job.")] = None,
    lane: Annotated[str | None, Parameter(help="Only those of this lane.")] = None,
    limit: Annotated[int, Parameter(help="At most so many.")] = 20,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """List runs, the newest first."""
    wanted = {"status": list(status), "key": key, "job": job, "lane": lane}
    async with open_client(app) as client:
        runs = await client.list_all("/api/runs", "runs", limit=limit, **wanted)
    headings = ("run", "state", "key", "job", "lane", "age", "progress or error")
    print_list(runs, headings, _columns, empty="there are no such runs", as_json=json)


def _columns(run: Any) -> tuple[str, ...]:
    told = shorten(run["error"]["message"]) if run["error"] else shorten(run["progress"])
    where = (run["key"] if run["key"] != run["id"] else "", run["job"], run["lane"])
    return (run["id"], state_label(run), *where, format_age(run["queued_at"]), told)


async def get(run_id: str, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Show all that is known of a run.

    Parameters
    ----------
    run_id
        The run, by the id that was given when it was accepted.
    """
    async with open_client(app) as client:
        run = await client.get(f"/api/runs/{quote_segment(run_id)}")
        if json:
            print_json(run)
            return
        traceback = run.pop("traceback", None) if is_terminal() else None
        facts = {name: value for name, value in run.items() if name not in HIDDEN_FIELDS}
        if run["unread_count"]:
            path = f"/api/runs/{quote_segment(run_id)}/messages"
            found = await client.list_all(path, "messages", limit=SHOWN_MESSAGE_COUNT)
            unread = [one["content"] for one in found if not (one["read"] or one["carried"])]
            facts["unread_messages"] = unread or None
    print_fields(facts)
    if traceback:
        print("traceback")
        print_indented(traceback)


async def explain(run_id: str, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Say why a run does not move: which gate, who holds it, and what would free it.

    Parameters
    ----------
    run_id
        The run, by the id that was given when it was accepted.
    """
    async with open_client(app) as client:
        told = await client.get(f"/api/runs/{quote_segment(run_id)}/explain")
    if json:
        print_json(told)
        return
    print(told.pop("sentence"))
    facts = {name.replace("_", " "): value for name, value in told.items()}
    print_fields({**facts, "held by": ", ".join(told["holder_ids"]), "place": client.address})


async def cancel(
    run_id: str,
    /,
    *,
    delete_files: Annotated[bool, Parameter(negative=())] = False,
    reason: str = "",
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Ask a run to end. Prints whether it is over or has yet to unwind; 3 when it was over before.

    Parameters
    ----------
    run_id
        The run.
    delete_files
        Delete the files that it has finished, too.
    reason
        Why, for whoever looks later.
    """
    files = "delete" if delete_files else "keep"
    async with open_client(app) as client:
        path = f"/api/runs/{quote_segment(run_id)}/cancel"
        told = await client.post(path, {"files": files, "reason": reason})
    print_json(told) if json else print(told["answer"])


async def send(
    run_id: str,
    message: str,
    /,
    *,
    when_listening: Annotated[bool, Parameter(negative=())] = False,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Send a message to a run whose job listens. If it does not, exit with 3 and the reason.

    Parameters
    ----------
    run_id
        The run.
    message
        What to say: JSON if it is that, else text.
    when_listening
        If the run has not started or does not listen yet, store the message until it does.
    """
    deliver = "when_listening" if when_listening else "now"
    async with open_client(app) as client:
        path = f"/api/runs/{quote_segment(run_id)}/messages"
        told = await client.post(path, {"content": parse_value(message), "deliver": deliver})
    print_json(told) if json else print("accepted")


async def messages(
    run_id: str,
    /,
    *,
    limit: Annotated[int, Parameter(help="At most so many.")] = 100,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """List the messages that were sent to a run, and whether its job has read them.

    Parameters
    ----------
    run_id
        The run.
    """
    async with open_client(app) as client:
        path = f"/api/runs/{quote_segment(run_id)}/messages"
        found = await client.list_all(path, "messages", limit=limit)
    headings = ("sent", "by", "state", "message")
    print_list(found, headings, _message_columns, empty="it was sent no messages", as_json=json)


def _message_columns(message: Any) -> tuple[str, ...]:
    state = "carried over" if message["carried"] else "read" if message["read"] else "unread"
    return (f"{format_age(message['at'])} ago", message["by"], state, shorten(message["content"]))


async def resume(
    run_id: str,
    /,
    *values: str,
    approve: Annotated[bool | None, Parameter(negative="--deny")] = None,
    call_id: str | None = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Answer what a run asks. Ends with 3 when it asks nothing, or that no more.

    Parameters
    ----------
    run_id
        The run.
    values
        What else to tell it, as `name=value`.
    approve
        Yes or no.
    call_id
        Which question; needed only when it asks more than one.
    """
    answer = parse_values(values, field="values")
    if approve is not None:
        answer["approved"] = approve
    if not answer:
        raise InvalidInput("answer", "say --approve, --deny or name=value")
    async with open_client(app) as client:
        call_id = call_id or await _find_only_interrupt(client, run_id)
        path = f"/api/runs/{quote_segment(run_id)}/resume"
        told = await client.post(path, {"call_id": call_id, **answer})
    print_json(told) if json else print("answered")


async def _find_only_interrupt(client: Client, run_id: str) -> str:
    asked = (await client.get("/api/interrupts", run_id=run_id))["interrupts"]
    if len(asked) == 1:
        return str(asked[0]["call_id"])
    if asked:
        ids = ", ".join(one["call_id"] for one in asked)
        raise InvalidInput("--call-id", f"run {run_id} asks more than one question: {ids}")
    await client.get(f"/api/runs/{quote_segment(run_id)}")  # It may not be there at all.
    raise ApiError(409, "stale", f"run {run_id} asks nothing", {})
