"""`headway run …`: submit, look, cancel, talk."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter, Token, convert

from headway.cli.client.api_client import Client, Refused, named
from headway.cli.client.open_client import connected
from headway.cli.commands.watch import watch_run
from headway.cli.output.printing import (
    App,
    IdempotencyKey,
    Json,
    ago,
    is_terminal,
    print_facts,
    print_json,
    print_lines,
    print_list,
    short,
    state_word,
)
from headway.cli.typed_values import value_of, values_of
from headway.core.errors import InvalidInput

Status = Literal[
    "queued", "running", "cancelling", "succeeded", "failed", "canceled", "timed_out", "rejected"
]
WHERE_JOBS: Final = "name them with --app module:name, or a server that has them with HEADWAY_URL"
SHOWN_WORDS: Final = {"done": "succeeded", "cancelled": "canceled"}
"""What a list shows for a state whose own word is another."""
SHOWN_MESSAGE_COUNT: Final = 100
NOT_SHOWN: Final = ("state", "is_waiting", "is_behind", "seq", "revision", "generation")


def _statuses(type_: Any, tokens: Sequence[Token]) -> Any:
    """As the list shows them, too: `Done` is `succeeded`."""
    words = [token.value.lower() for token in tokens]
    said = zip(tokens, words, strict=True)
    return convert(type_, [one.evolve(value=SHOWN_WORDS.get(word, word)) for one, word in said])


Statuses = Annotated[
    Sequence[Status],
    Parameter(converter=_statuses, help="Only those in such a state, in these words or as shown."),
]
KeyOption = Annotated[
    str | None, Parameter(help="What must be serial; without one, the run is its own.")
]
Continue = Annotated[
    bool,
    Parameter(name="--continue", negative=(), help="Go on from the last checkpoint of the key."),
]
LaneOption = Annotated[str | None, Parameter(help="Another lane than the job's own.")]
OnConflict = Annotated[
    Literal["reject", "enqueue", "replace", "steer", "join"],
    Parameter(help="What to do when the key has an active run."),
]
Existing = Annotated[
    Literal["ask", "replace", "archive", "delete"] | None,
    Parameter(help="What becomes of the key's earlier output."),
]
Timeout = Annotated[
    float | Literal["none"] | None,
    Parameter(help="How long it may take, in seconds, or `none`. Default: the limit of the job."),
]
QueueTimeout = Annotated[float | None, Parameter(help="How long it may wait to start, in seconds.")]
Watch = Annotated[bool, Parameter(negative=(), help="Show what it does until it ends.")]


async def submit(
    job: str,
    /,
    *params: str,
    key: KeyOption = None,
    continue_: Continue = False,
    lane: LaneOption = None,
    on_conflict: OnConflict = "reject",
    existing: Existing = None,
    timeout_s: Timeout = None,
    queue_timeout_s: QueueTimeout = None,
    idempotency_key: IdempotencyKey = None,
    app: App = None,
    watch: Watch = False,
    json: Json = False,
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
        "params": values_of(params, place="params") if params else None,
        "lane": lane,
        "on_conflict": on_conflict,
        "existing": existing,
        "queue_timeout_s": queue_timeout_s,
    }
    if timeout_s is not None:  # The job's limit applies; null means no limit.
        wanted["timeout_s"] = None if timeout_s == "none" else timeout_s
    async with connected(app) as client:
        run = await _submitted(client, wanted, idempotency_key)
        if watch:
            return await watch_run(client, run["id"], as_json=json)
    print_json(run) if json else print(run["id"])
    return 0


async def _submitted(client: Client, wanted: dict[str, Any], idempotency_key: str | None) -> Any:
    try:
        return await client.start("/api/runs", wanted, idempotency_key=idempotency_key)
    except Refused as error:
        if error.more.get("place") == "job":
            with suppress(Refused):  # Then there is nothing to add.
                if not (await client.get("/api/jobs"))["jobs"]:
                    error.args = (f"{error}; where are the jobs? {WHERE_JOBS}",)
        raise


async def list_(
    *,
    status: Statuses = (),
    key: Annotated[str | None, Parameter(help="Only those of this key.")] = None,
    job: Annotated[str | None, Parameter(help="Only those of this job.")] = None,
    lane: Annotated[str | None, Parameter(help="Only those of this lane.")] = None,
    limit: Annotated[int, Parameter(help="At most so many.")] = 20,
    app: App = None,
    json: Json = False,
) -> None:
    """List runs, the newest first."""
    wanted = {"status": list(status), "key": key, "job": job, "lane": lane}
    async with connected(app) as client:
        runs = await client.listed("/api/runs", "runs", limit=limit, **wanted)
    headings = ("run", "state", "key", "job", "lane", "age", "progress or error")
    print_list(runs, headings, _columns, empty="there are no such runs", as_json=json)


def _columns(run: Any) -> tuple[str, ...]:
    told = short(run["error"]["message"]) if run["error"] else short(run["progress"])
    where = (run["key"] if run["key"] != run["id"] else "", run["job"], run["lane"])
    return (run["id"], state_word(run), *where, ago(run["queued_at"]), told)


async def get(run_id: str, /, *, app: App = None, json: Json = False) -> None:
    """Show all that is known of a run.

    Parameters
    ----------
    run_id
        The run, by the id that was given when it was accepted.
    """
    async with connected(app) as client:
        run = await client.get(f"/api/runs/{named(run_id)}")
        if json:
            print_json(run)
            return
        traceback = run.pop("traceback", None) if is_terminal() else None
        facts = {name: value for name, value in run.items() if name not in NOT_SHOWN}
        if run["unread_count"]:
            path = f"/api/runs/{named(run_id)}/messages"
            found = await client.listed(path, "messages", limit=SHOWN_MESSAGE_COUNT)
            unread = [one["content"] for one in found if not (one["read"] or one["carried"])]
            facts["unread_messages"] = unread or None
    print_facts(facts)
    if traceback:
        print("traceback")
        print_lines(traceback)


async def explain(run_id: str, /, *, app: App = None, json: Json = False) -> None:
    """Say why a run does not move: which gate, who holds it, and what would free it.

    Parameters
    ----------
    run_id
        The run, by the id that was given when it was accepted.
    """
    async with connected(app) as client:
        told = await client.get(f"/api/runs/{named(run_id)}/explain")
    if json:
        print_json(told)
        return
    print(told.pop("sentence"))
    facts = {name.replace("_", " "): value for name, value in told.items()}
    print_facts({**facts, "held by": ", ".join(told["held_by"]), "place": client.place})


async def cancel(
    run_id: str,
    /,
    *,
    delete_files: Annotated[bool, Parameter(negative=())] = False,
    reason: str = "",
    app: App = None,
    json: Json = False,
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
    async with connected(app) as client:
        path = f"/api/runs/{named(run_id)}/cancel"
        told = await client.post(path, {"files": files, "reason": reason})
    print_json(told) if json else print(told["answer"])


async def send(
    run_id: str,
    message: str,
    /,
    *,
    when_listening: Annotated[bool, Parameter(negative=())] = False,
    app: App = None,
    json: Json = False,
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
    async with connected(app) as client:
        path = f"/api/runs/{named(run_id)}/messages"
        told = await client.post(path, {"content": value_of(message), "deliver": deliver})
    print_json(told) if json else print("accepted")


async def messages(
    run_id: str,
    /,
    *,
    limit: Annotated[int, Parameter(help="At most so many.")] = 100,
    app: App = None,
    json: Json = False,
) -> None:
    """List the messages that were sent to a run, and whether its job has read them.

    Parameters
    ----------
    run_id
        The run.
    """
    async with connected(app) as client:
        path = f"/api/runs/{named(run_id)}/messages"
        found = await client.listed(path, "messages", limit=limit)
    headings = ("sent", "by", "state", "message")
    print_list(found, headings, _message_columns, empty="it was sent no messages", as_json=json)


def _message_columns(message: Any) -> tuple[str, ...]:
    state = "carried over" if message["carried"] else "read" if message["read"] else "unread"
    return (f"{ago(message['at'])} ago", message["by"], state, short(message["content"]))


async def resume(
    run_id: str,
    /,
    *values: str,
    approve: Annotated[bool | None, Parameter(negative="--deny")] = None,
    call_id: str | None = None,
    app: App = None,
    json: Json = False,
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
    answer = values_of(values, place="values")
    if approve is not None:
        answer["approved"] = approve
    if not answer:
        raise InvalidInput("answer", "say --approve, --deny or name=value")
    async with connected(app) as client:
        call_id = call_id or await _only_question(client, run_id)
        path = f"/api/runs/{named(run_id)}/resume"
        told = await client.post(path, {"call_id": call_id, **answer})
    print_json(told) if json else print("answered")


async def _only_question(client: Client, run_id: str) -> str:
    asked = (await client.get("/api/interrupts", run_id=run_id))["interrupts"]
    if len(asked) == 1:
        return str(asked[0]["call_id"])
    if asked:
        ids = ", ".join(one["call_id"] for one in asked)
        raise InvalidInput("--call-id", f"run {run_id} asks more than one question: {ids}")
    await client.get(f"/api/runs/{named(run_id)}")  # It may not be there at all.
    raise Refused(409, "stale", f"run {run_id} asks nothing", {})
