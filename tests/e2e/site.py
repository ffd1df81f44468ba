"""A real server with real jobs, as a process of its own, for a browser."""

import json
import subprocess
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from urllib.request import urlopen

from headway import Headway
from headway.core.command.run.submit import Busy
from headway.services.upkeep.pruner import Pruner, Retention
from headway.testing import a_submit
from tests.cli.command import command, environment
from tests.contract.backends import run_in_thread
from tests.servers.process import free_port, wait_until

ROOT: Final = Path(__file__).parents[2]
TIMEOUT_S: Final = 30.0
MOMENT_S: Final = 0.001


class Site:
    def __init__(self, folder: Path, **settings: str) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.token = settings.get("HEADWAY_TOKEN")
        self.database = folder / "headway.db"
        self._log = folder / "server.log"
        self._data = folder / "data"
        self.url = f"sqlite:///{self.database}"
        self._environment = environment(
            HEADWAY_DATABASE_URL=self.url,
            HEADWAY_DATA=str(self._data),
            **settings,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command("serve", "--app", "tests.e2e.app:hw", "--port", str(self.port)),
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        wait_until(self._is_ready, what=f"the server, see {self._log}", timeout_s=TIMEOUT_S)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text(encoding="utf-8")
        try:
            return self._call("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def work(self, services: str | None = "tests.e2e.work:services") -> str:
        """Start a worker in a process of its own, which the site ends; return its id once
        registered.
        """
        before = {worker["id"] for worker in self.workers()}
        where = ("--url", f"http://127.0.0.1:{free_port()}", "--registry", self.address)
        with self._log.open("ab") as log:
            self._workers.append(
                subprocess.Popen(
                    command("worker", *([] if services is None else [services]), *where),
                    cwd=ROOT,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stderr=log,
                )
            )
        wait_until(
            lambda: len({worker["id"] for worker in self.workers()} - before) == 1,
            what=f"a worker, see {self._log}",
            timeout_s=TIMEOUT_S,
        )
        [worker_id] = {worker["id"] for worker in self.workers()} - before
        return str(worker_id)

    def workers(self) -> Any:
        return self.call("GET", "/api/workers")["workers"]

    def dismiss(self) -> None:
        """Stop the workers gracefully."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait(timeout=TIMEOUT_S)
        self._workers.clear()

    def stop(self) -> None:
        self.dismiss()
        assert self._process is not None
        self._process.terminate()
        self._process.wait(timeout=TIMEOUT_S)

    def _call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        headers = {"content-type": "application/json"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else None
        finally:
            connection.close()

    def text(self, path: str) -> str:
        """Return the body of a response as text."""
        with urlopen(f"{self.address}{path}", timeout=TIMEOUT_S) as answer:  # noqa: S310
            return str(answer.read(), "utf-8")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer to a call that must succeed."""
        status, answer = self._call(method, path, body)
        assert status < 300, (method, path, answer)
        return answer

    def clear(self) -> None:
        """End active runs, remove all rows and runs, and set the limit to three again."""
        state = self.call("GET", "/api/state")
        for run in state["runs"]:
            self._call("POST", f"/api/runs/{run['id']}/cancel", {"files": "delete"})
        for run in state["runs"]:
            self.ended(run["id"])
        for saved in state["keys"]:
            self.call("DELETE", f"/api/keys/{quote(saved['key'], safe='')}")
        run_in_thread(self.forget_runs)
        self.call("PATCH", "/api/lanes/main", {"max_concurrent": 3, "paused": False})

    def save(self, key: str, job: str = "mirror", **params: Any) -> None:
        if job == "mirror":
            params = {"url": f"https://example.org/{key}", **params}
        self.call("PUT", f"/api/keys/{quote(key, safe='')}", {"job": job, "params": params})

    def submit(self, key: str | None, job: str = "mirror", **more: Any) -> str:
        """Submit a run and return its id."""
        body = {"job": job, **({} if key is None else {"key": key}), **more}
        run_id: str = self.call("POST", "/api/runs", body)["id"]
        return run_id

    def begun(self, key: str | None, job: str = "mirror", **more: Any) -> str:
        """Submit a run and return its id once it is running."""
        run_id = self.submit(key, job, **more)
        self.until(run_id, lambda run: run["status"] == "running")
        return run_id

    def send(self, run_id: str, *contents: Any) -> None:
        """Send a message to the job of a run."""
        for content in contents:
            body = {"content": content, "deliver": "when_listening"}
            self.call("POST", f"/api/runs/{run_id}/messages", body)

    def run(self, run_id: str) -> Any:
        return self.call("GET", f"/api/runs/{run_id}")

    def publish(self, name: str, definition: Any) -> None:
        self.call("PUT", f"/api/flows/{quote(name, safe='')}", definition)

    def started(self, flow: str, **body: Any) -> str:
        """Start a task and return its id."""
        task_id: str = self.call("POST", f"/api/flows/{quote(flow, safe='')}/tasks", body)["id"]
        return task_id

    def waiting(self, task_id: str, kind: str) -> Any:
        """Return the task once it waits for that."""
        wait_until(
            lambda: self.call("GET", f"/api/tasks/{task_id}")["waits_for"] == kind,
            what=f"task {task_id} waits for {kind}",
            timeout_s=TIMEOUT_S,
        )
        return self.call("GET", f"/api/tasks/{task_id}")

    async def refuse(self, key: str) -> None:
        """Reject a run as a schedule does that is due while its key is busy."""
        async with Headway(self.url).without_engine() as hw:
            answer = await hw.store.apply(a_submit(key, is_unattended=True))
        assert isinstance(answer, Busy)

    async def forget_runs(self) -> None:
        """Remove the ended runs, as retention does."""
        async with Headway(self.url).without_engine() as hw:
            retention = Retention(runs_s=MOMENT_S)
            store = hw.store
            keeper = Pruner(store, store.runs, store.events, store.workers, retention)
            await keeper.prune_all()

    async def forget_events(self) -> None:
        """Remove all events so far from the stream, as retention does."""
        async with Headway(self.url).without_engine() as hw:
            retention = Retention(events_s=MOMENT_S)
            store = hw.store
            keeper = Pruner(store, store.runs, store.events, store.workers, retention)
            await keeper.prune_all()

    def has_file(self, path: str, *, of: str) -> bool:
        """Return whether the key, which has only plain letters, has this file."""
        return (self._data / "keys" / of / path).is_file()

    def until(self, run_id: str, holds: Callable[[Any], bool]) -> Any:
        wait_until(
            lambda: holds(self.run(run_id)), what=f"run {run_id}: {holds}", timeout_s=TIMEOUT_S
        )
        return self.run(run_id)

    def ended(self, run_id: str) -> Any:
        return self.until(run_id, lambda run: run["ended_at"] is not None)
