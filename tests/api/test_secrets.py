"""Secret parameters are never returned; they are only shown as set (R1.12)."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import SecretStr

from headway import Headway, InvalidInput, RunContext
from headway.core.batch_state import SavedKey
from headway.core.document import BYTE_COUNT_MAX
from headway.core.errors import RevisionConflict
from headway.core.ids import Key
from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")

PASSWORD: Final = "correct horse"
DEFAULT_SECRET: Final = SecretStr("a default")
SET: Final = {"secret": "set"}


def read_mirror(folder: Path, run_id: str) -> Any:
    return json.loads((folder / "runs" / f"{run_id}.json").read_text())


@pytest.fixture
async def used_passwords(client: Client) -> list[str]:
    """Register a job with secret parameters, and return the list of passwords that it receives."""
    passwords: list[str] = []

    @client.hw.job()
    async def login(
        ctx: RunContext,
        name: str,
        password: SecretStr,
        pin: SecretStr | None = None,
        spare: SecretStr = DEFAULT_SECRET,
    ) -> None:
        assert ctx.params["password"] == password.get_secret_value()
        passwords.append(password.get_secret_value())

    return passwords


@pytest.mark.proves("S4")
async def test_secret_saved_by_a_program_without_the_job_is_not_shown(
    client: Client, url: str, used_passwords: list[str]
) -> None:
    async with Headway(url).without_engine() as other:
        await other.keys.save("ann", job="login", params={"name": "ann", "password": PASSWORD})
    for path in ("/api/state", "/api/keys", "/api/keys/ann"):
        text = json.dumps((await client.get(path)).body)
        assert PASSWORD not in text, path
        assert json.dumps(SET) in text, path
    await client.wait_for_end(await client.submit("login", key="ann"))
    assert used_passwords == [PASSWORD]


@pytest.mark.proves("S4")
async def test_key_of_the_maximum_size_is_shown_without_its_secret(
    client: Client, url: str, used_passwords: list[str]
) -> None:
    """The secret is marked only when it is read, and the mark makes the document longer."""
    params = {"name": "", "password": PASSWORD}
    params["name"] = "x" * (BYTE_COUNT_MAX - len(json.dumps(params, separators=(",", ":"))))
    async with Headway(url).without_engine() as other:
        await other.keys.save("ann", job="login", params=params)
    shown = (await client.get("/api/keys/ann")).body
    assert shown["params"] == {"name": params["name"], "password": SET}


@pytest.mark.proves("R1.12")
async def test_job_receives_the_secret_and_no_answer_contains_it(
    client: Client, used_passwords: list[str]
) -> None:
    params = {"name": "ann", "password": PASSWORD, "pin": "1234"}
    run_id = await client.submit("login", key="ann", params=params)
    await client.wait_for_end(run_id)
    assert used_passwords == [PASSWORD]
    shown = await client.get(f"/api/runs/{run_id}")
    assert shown["params"] == {"name": "ann", "password": SET, "pin": SET}
    for path in (f"/api/runs/{run_id}", "/api/runs", "/api/state", "/api/events?after=0"):
        text = json.dumps((await client.get(path)).body)
        assert PASSWORD not in text
        assert "1234" not in text
        assert "a default" not in text


@pytest.mark.proves("R1.12")
async def test_saved_secret_is_shown_as_set_and_used(
    client: Client, used_passwords: list[str]
) -> None:
    row = {"job": "login", "params": {"name": "ann", "password": PASSWORD}}
    saved = await client.call("PUT", "/api/keys/ann", row)
    assert saved["params"] == {"name": "ann", "password": SET}
    # A form sends back a changed name, and the secret as it was shown.
    row["params"] = {"name": "anna", "password": SET}
    again = await client.call("PUT", "/api/keys/ann", row)
    assert again["params"] == {"name": "anna", "password": SET}
    await client.wait_for_end(await client.submit("login", key="ann"))
    await client.wait_for_end(await client.submit("login", key="ann", params=row["params"]))
    assert used_passwords == [PASSWORD, PASSWORD]


@pytest.mark.proves("R1.12")
async def test_marker_for_a_stored_secret_is_refused_if_no_secret_is_stored(
    client: Client, used_passwords: list[str]
) -> None:
    params = {"name": "bob", "password": SET}
    body = {"job": "login", "key": "bob", "params": params}
    refused = await client.call("POST", "/api/runs", body)
    assert (refused.status, refused["path"]) == (422, "params.password")
    assert "send the secret itself" in refused["detail"]
    with pytest.raises(InvalidInput, match="send the secret itself"):
        await client.hw.keys.save("bob", job="login", params=params)


@pytest.mark.proves("R1.12")
async def test_refusal_of_an_invalid_secret_does_not_contain_it(
    client: Client, used_passwords: list[str]
) -> None:
    body = {"job": "login", "params": {"name": "ann", "password": 12_345_678}}
    refused = await client.call("POST", "/api/runs", body)
    assert refused.status == 422
    assert "12345678" not in json.dumps(refused.body)


@pytest.mark.proves("R1.12")
async def test_mirror_of_a_run_does_not_contain_its_secret(url: str, tmp_path: Path) -> None:
    hw = Headway(url, data=tmp_path, mirror=True)

    @hw.job()
    async def login(ctx: RunContext, password: SecretStr) -> None: ...

    async with hw:
        run = await hw.start("login", params={"password": PASSWORD})
        await run.result()
    assert read_mirror(tmp_path, run.id)["params"] == {"password": SET}


@pytest.mark.proves("R1.12")
async def test_secret_sent_with_steer_is_not_in_the_events(
    client: Client, used_passwords: list[str]
) -> None:
    is_steered = asyncio.Event()

    @client.hw.job()
    async def listen_once(ctx: RunContext, password: SecretStr) -> None:
        async with ctx.listening():
            await ctx.emit("listening", {})
            await is_steered.wait()
            (message,) = await ctx.messages()
        used_passwords.append(message["password"])

    first = await client.submit("listen_once", key="ann", params={"password": "first"})
    await client.wait_for_event(first, "listening")
    body = {
        "job": "listen_once",
        "key": "ann",
        "params": {"password": PASSWORD},
        "on_conflict": "steer",
    }
    assert (await client.post("/api/runs", body)).status < 300
    is_steered.set()
    await client.wait_for_end(first)
    assert used_passwords == [PASSWORD]
    assert PASSWORD not in json.dumps((await client.get("/api/events?after=0")).body)


@pytest.mark.proves("R1.12")
async def test_key_of_an_unregistered_job_keeps_its_secret(client: Client) -> None:
    row = {"job": "elsewhere", "params": {"password": {"$secret": PASSWORD}}}
    assert (await client.call("PUT", "/api/keys/ann", row))["params"] == {"password": SET}
    row["params"] = {"password": SET}
    assert (await client.call("PUT", "/api/keys/ann", row))["params"] == {"password": SET}
    (saved,) = await client.hw.keys.list()
    assert json.loads(saved.params) == {"password": {"$secret": PASSWORD}}


@pytest.mark.proves("R1.12")
def test_job_with_a_secret_nested_in_a_parameter_is_refused() -> None:
    async def login(ctx: RunContext, passwords: list[SecretStr]) -> None: ...

    with pytest.raises(InvalidInput, match="make it a separate parameter"):
        Headway("sqlite://").job()(login)


@pytest.mark.proves("R1.12")
async def test_secret_replaced_during_a_submission_is_not_used(
    client: Client, used_passwords: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, runs = client.hw.keys, client.hw.store.runs
    await keys.save("ann", job="login", params={"name": "ann", "password": PASSWORD})
    read = runs.saved_key

    async def replace_after_read(key: Key) -> SavedKey | None:
        row = await read(key)
        monkeypatch.undo()
        await keys.save("ann", job="login", params={"name": "ann", "password": "another"})
        return row

    monkeypatch.setattr(runs, "saved_key", replace_after_read)
    with pytest.raises(RevisionConflict):
        await client.hw.submit("login", key="ann", params={"name": "ann", "password": SET})
    assert used_passwords == []


@pytest.mark.proves("S4")
async def test_no_answer_contains_the_secret_of_a_task(client: Client) -> None:
    received: list[Any] = []

    @client.hw.flows.function
    async def login(what: Any, params: dict[str, Any]) -> Any:
        received.extend((what, params))
        return {"is": "in", "again": {"$secret": PASSWORD}}

    node = {
        "kind": "local",
        "function": "login",
        "prep": {"input_map": {"password": "$params.password"}},
        "post": {"output_key": "result"},
    }
    await client.call("PUT", "/api/flows/logins", {"start": "a", "nodes": {"a": node}})
    params = {"password": {"$secret": PASSWORD}}
    task = await client.post("/api/flows/logins/tasks", {"params": params})
    await client.hw.run(task["id"]).wait_for_end()
    (row,) = await client.hw.flows.node_runs(task["id"])
    assert PASSWORD in json.dumps(received)
    assert PASSWORD in json.dumps(row.input)
    for path in (
        *(f"/api/tasks/{task['id']}", f"/api/tasks/{task['id']}/node-runs", "/api/tasks"),
        *(f"/tasks/get?id=task-{task['id']}", f"/tasks/runs?task_id=task-{task['id']}", "/tasks"),
        *(f"/api/runs/{task['id']}", "/api/runs", "/api/state", "/api/events?after=0"),
    ):
        text = json.dumps((await client.get(path)).body)
        assert PASSWORD not in text, path
    signal = {"key": "password", "value": {"$secret": PASSWORD}}
    wait = {"kind": "wait_event", "params": {"signal_key": "never"}}
    await client.call("PUT", "/api/flows/waits", {"start": "a", "nodes": {"a": wait}})
    task = await client.post("/api/flows/waits/tasks", {})
    shown = await client.post(f"/api/tasks/{task['id']}/signal", signal)
    assert shown["shared"]["password"] == SET
    assert PASSWORD not in json.dumps((await client.get("/api/events?after=0")).body)


@pytest.mark.proves("S4")
async def test_secret_emitted_by_a_job_is_not_shown(client: Client) -> None:
    @client.hw.job()
    async def leak(ctx: RunContext) -> Any:
        document = {"login": {"$secret": PASSWORD}}
        await ctx.save_checkpoint(document)
        await ctx.progress(document=document)
        await ctx.emit("leaked", document)
        return document

    run = await client.wait_for_end(await client.submit("leak"))
    assert run["result"] == run["checkpoint"] == {"login": SET}
    for path in (f"/api/runs/{run['id']}/events", "/api/events?after=0", "/api/runs"):
        assert PASSWORD not in json.dumps((await client.get(path)).body), path
