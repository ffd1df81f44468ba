"""R1.12: a secret among the parameters is never echoed; it is only said to be set."""

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
SPARE: Final = SecretStr("a default")
SET: Final = {"secret": "set"}


def shown_in(folder: Path, run_id: str) -> Any:
    return json.loads((folder / "runs" / f"{run_id}.json").read_text())


@pytest.fixture
async def used(client: Client) -> list[str]:
    """The passwords with which the job has logged in."""
    passwords: list[str] = []

    @client.hw.job()
    async def login(
        ctx: RunContext,
        name: str,
        password: SecretStr,
        pin: SecretStr | None = None,
        spare: SecretStr = SPARE,
    ) -> None:
        assert ctx.params["password"] == password.get_secret_value()
        passwords.append(password.get_secret_value())

    return passwords


@pytest.mark.proves("S4")
async def test_a_secret_is_not_shown_though_whoever_saved_it_did_not_know_the_job(
    client: Client, url: str, used: list[str]
) -> None:
    async with Headway(url).without_engine() as stranger:
        await stranger.keys.save("ann", job="login", params={"name": "ann", "password": PASSWORD})
    for path in ("/api/state", "/api/keys", "/api/keys/ann"):
        text = json.dumps((await client.get(path)).body)
        assert PASSWORD not in text, path
        assert json.dumps(SET) in text, path
    await client.ended(await client.submitted("login", key="ann"))
    assert used == [PASSWORD]


@pytest.mark.proves("S4")
async def test_a_row_that_is_as_large_as_may_be_is_shown_without_its_secret(
    client: Client, url: str, used: list[str]
) -> None:
    """Its secret is marked only when it is read, which makes it longer."""
    params = {"name": "", "password": PASSWORD}
    params["name"] = "x" * (BYTE_COUNT_MAX - len(json.dumps(params, separators=(",", ":"))))
    async with Headway(url).without_engine() as stranger:
        await stranger.keys.save("ann", job="login", params=params)
    shown = (await client.get("/api/keys/ann")).body
    assert shown["params"] == {"name": params["name"], "password": SET}


@pytest.mark.proves("R1.12")
async def test_the_job_is_given_the_secret_and_nobody_is_shown_it(
    client: Client, used: list[str]
) -> None:
    params = {"name": "ann", "password": PASSWORD, "pin": "1234"}
    run_id = await client.submitted("login", key="ann", params=params)
    await client.ended(run_id)
    assert used == [PASSWORD]
    shown = await client.get(f"/api/runs/{run_id}")
    assert shown["params"] == {"name": "ann", "password": SET, "pin": SET}
    for path in (f"/api/runs/{run_id}", "/api/runs", "/api/state", "/api/events?after=0"):
        text = json.dumps((await client.get(path)).body)
        assert PASSWORD not in text
        assert "1234" not in text
        assert "a default" not in text


@pytest.mark.proves("R1.12")
async def test_a_saved_secret_is_shown_as_set_kept_and_used(
    client: Client, used: list[str]
) -> None:
    row = {"job": "login", "params": {"name": "ann", "password": PASSWORD}}
    saved = await client.call("PUT", "/api/keys/ann", row)
    assert saved["params"] == {"name": "ann", "password": SET}
    # What a form sends back: another name, and the secret as it was shown.
    row["params"] = {"name": "anna", "password": SET}
    again = await client.call("PUT", "/api/keys/ann", row)
    assert again["params"] == {"name": "anna", "password": SET}
    await client.ended(await client.submitted("login", key="ann"))
    await client.ended(await client.submitted("login", key="ann", params=row["params"]))
    assert used == [PASSWORD, PASSWORD]


@pytest.mark.proves("R1.12")
async def test_a_secret_that_is_only_said_to_be_set_must_be_known(
    client: Client, used: list[str]
) -> None:
    params = {"name": "bob", "password": SET}
    body = {"job": "login", "key": "bob", "params": params}
    refused = await client.call("POST", "/api/runs", body)
    assert (refused.status, refused["place"]) == (422, "params.password")
    assert "give it once more" in refused["detail"]
    with pytest.raises(InvalidInput, match="give it once more"):
        await client.hw.keys.save("bob", job="login", params=params)


@pytest.mark.proves("R1.12")
async def test_a_wrong_secret_is_not_repeated_in_the_refusal(
    client: Client, used: list[str]
) -> None:
    body = {"job": "login", "params": {"name": "ann", "password": 12_345_678}}
    refused = await client.call("POST", "/api/runs", body)
    assert refused.status == 422
    assert "12345678" not in json.dumps(refused.body)


@pytest.mark.proves("R1.12")
async def test_the_mirror_does_not_show_it(url: str, tmp_path: Path) -> None:
    hw = Headway(url, data=tmp_path, mirror=True)

    @hw.job()
    async def login(ctx: RunContext, password: SecretStr) -> None: ...

    async with hw:
        run = await hw.start("login", params={"password": PASSWORD})
        await run.result()
    assert shown_in(tmp_path, run.id)["params"] == {"password": SET}


@pytest.mark.proves("R1.12")
async def test_a_secret_that_steers_a_run_is_not_in_its_events(
    client: Client, used: list[str]
) -> None:
    is_steered = asyncio.Event()

    @client.hw.job()
    async def hear(ctx: RunContext, password: SecretStr) -> None:
        async with ctx.listening():
            await ctx.emit("hears", {})
            await is_steered.wait()
            (heard,) = await ctx.messages()
        used.append(heard["password"])

    first = await client.submitted("hear", key="ann", params={"password": "first"})
    await client.told(first, "hears")
    body = {"job": "hear", "key": "ann", "params": {"password": PASSWORD}, "on_conflict": "steer"}
    assert (await client.post("/api/runs", body)).status < 300
    is_steered.set()
    await client.ended(first)
    assert used == [PASSWORD]
    assert PASSWORD not in json.dumps((await client.get("/api/events?after=0")).body)


@pytest.mark.proves("R1.12")
async def test_a_row_of_a_job_that_nobody_knows_here_keeps_its_secret(client: Client) -> None:
    row = {"job": "elsewhere", "params": {"password": {"$secret": PASSWORD}}}
    assert (await client.call("PUT", "/api/keys/ann", row))["params"] == {"password": SET}
    row["params"] = {"password": SET}
    assert (await client.call("PUT", "/api/keys/ann", row))["params"] == {"password": SET}
    (saved,) = await client.hw.keys.list()
    assert json.loads(saved.params) == {"password": {"$secret": PASSWORD}}


@pytest.mark.proves("R1.12")
def test_a_secret_inside_of_a_parameter_is_refused_with_the_job() -> None:
    async def login(ctx: RunContext, passwords: list[SecretStr]) -> None: ...

    with pytest.raises(InvalidInput, match="make it a parameter of its own"):
        Headway("sqlite://").job()(login)


@pytest.mark.proves("R1.12")
async def test_a_secret_that_is_replaced_at_this_very_moment_is_not_used(
    client: Client, used: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, runs = client.hw.keys, client.hw.store.runs
    await keys.save("ann", job="login", params={"name": "ann", "password": PASSWORD})
    read = runs.saved_key

    async def replaced_once_read(key: Key) -> SavedKey | None:
        row = await read(key)
        monkeypatch.undo()
        await keys.save("ann", job="login", params={"name": "ann", "password": "another"})
        return row

    monkeypatch.setattr(runs, "saved_key", replaced_once_read)
    with pytest.raises(RevisionConflict):
        await client.hw.submit("login", key="ann", params={"name": "ann", "password": SET})
    assert used == []


@pytest.mark.proves("S4")
async def test_a_secret_of_a_task_is_shown_nowhere(client: Client) -> None:
    given: list[Any] = []

    @client.hw.flows.function
    async def login(what: Any, params: dict[str, Any]) -> Any:
        given.extend((what, params))
        return {"is": "in", "again": {"$secret": PASSWORD}}

    node = {
        "kind": "local",
        "function": "login",
        "prep": {"input_map": {"password": "$params.password"}},
        "post": {"output_key": "told"},
    }
    await client.call("PUT", "/api/flows/logins", {"start": "a", "nodes": {"a": node}})
    params = {"password": {"$secret": PASSWORD}}
    task = await client.post("/api/flows/logins/tasks", {"params": params})
    await client.hw.run(task["id"]).wait_for_end()
    (row,) = await client.hw.flows.node_runs(task["id"])
    assert PASSWORD in json.dumps(given)
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
async def test_a_secret_that_a_job_tells_is_not_shown_on(client: Client) -> None:
    @client.hw.job()
    async def leak(ctx: RunContext) -> Any:
        told = {"login": {"$secret": PASSWORD}}
        await ctx.save_checkpoint(told)
        await ctx.progress(told=told)
        await ctx.emit("told", told)
        return told

    run = await client.ended(await client.submitted("leak"))
    assert run["result"] == run["checkpoint"] == {"login": SET}
    for path in (f"/api/runs/{run['id']}/events", "/api/events?after=0", "/api/runs"):
        assert PASSWORD not in json.dumps((await client.get(path)).body), path
