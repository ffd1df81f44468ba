"""What a flow means, written down a second time: plain recursion over the JSON of a definition.

Nothing of the engine is used here.
"""

import json
from collections.abc import Generator
from typing import Any

from tests.core.flow.driver import Crash
from tests.core.flow.reference_parts import (
    FOR_EVER,
    Branches,
    Call,
    Event,
    Huge,
    Lost,
    OutOfTime,
    Over,
    Place,
    Row,
    Signals,
    Stuck,
    Tried,
    Tries,
    World,
)
from tests.core.flow.reference_time import Timeline
from tests.core.flow.reference_values import (
    Json,
    callee_of,
    found,
    holds,
    keyed_action,
    mapped_action,
    prepared,
)

OUTPUT_LENGTH_MAX = 20_000


class Reference(Timeline):
    def __init__(
        self,
        definition: Json,
        params: Json,
        world: World,
        *,
        signals: Signals,
        row_count_max: int,
        crash: Crash = Crash.NEVER,
    ) -> None:
        """`crash` is what happens to the process after every commit."""
        super().__init__(signals, crash)
        self.definition = definition
        self.params = params
        self.world = world
        self.row_count_max = row_count_max
        self.rows: list[Row] = []
        self.status: str | None = None
        self.error = ""
        self.is_strict = definition.get("error_policy") == "fail"
        self.worker_wait_ms = definition.get("worker_wait_ms", 300_000) if self.is_strict else 0
        self.failed_path: tuple[str, ...] = ()

    def run(self) -> "Reference":
        try:
            self.error = self.flow(self.definition, self.params, self.root, ())
        except Over as over:
            self.error = over.error
        except Stuck:
            return self
        self.status = "failed" if self.error else "succeeded"
        return self

    # The graph.

    def flow(self, flow: Json, params: Json, shared: Json, path: tuple[str, ...]) -> str:
        """The error with which it ends; empty when it ends well."""
        key = flow["start"]
        while True:
            action, error = self.node(flow["nodes"][key], params, shared, (*path, key))
            edges = {
                edge.get("action") or "default": edge.get("to", "")
                for edge in flow.get("edges", [])
                if edge["from"] == key
            }
            is_meant = action in edges
            if error and self.is_strict:
                is_meant = is_meant or "error" in edges
                target = edges.get(action, edges.get("error"))
            else:
                target = edges.get(action, edges.get("default"))
            if not target:
                return "" if not error or is_meant else error
            if len(self.rows) >= self.row_count_max:
                raise Over("too_many_steps")
            key = target

    def node(
        self, node: Json, params: Json, shared: Json, path: tuple[str, ...]
    ) -> tuple[str, str]:
        """The action, and the error if it failed."""
        try_no = 1
        merged = {**params, **node.get("params", {})}
        while True:
            given = prepared(node, merged, params, shared)
            place = Place(node, merged, shared, given, path, self.now, {})
            try:
                return self.kind_of(place, try_no)
            except Lost as lost:
                if lost.is_final or try_no > node.get("max_retries", 0):
                    action = self.failure(place, lost.error)
                    self.failed_path = lost.path or path
                    self.row(place, error=lost.error, action=action, attempt=try_no)
                    return action, lost.error
                self.row(place, error=lost.error, attempt=try_no, is_settled=False)
            try_no += 1
            wait = node.get("wait_ms", 0)
            if wait:
                self.advance(self.now + wait, is_alarm=True)

    def kind_of(self, place: Place, try_no: int) -> tuple[str, str]:
        match place.node["kind"]:
            case "choice":
                return self.succeeded(place, place.given, action=self.choice(place))
            case "executor" | "local" | "flow_ref":
                return self.one_call(place)
            case "parallel" | "foreach":
                return self.fan(place)
            case "subflow":
                inner = self.subflow(place)
                self.keep(place, inner)
                return self.action(place, inner), ""
            case "fail":
                raise Over(self.fail(place))
            case "timer":
                delay = place.merged["delay_ms"]
                if delay:
                    self.advance(self.now + delay, is_alarm=True)
                return self.succeeded(place, place.given, attempt=try_no)
            case _:
                value, action = self.wait(place)
                return self.succeeded(place, value, action=action, attempt=try_no)

    def choice(self, place: Place) -> str:
        for case in place.node["choice_cases"]:
            if holds(case["expr"], place.merged, place.shared, place.given):
                return str(case["action"])
        return ""

    def fail(self, place: Place) -> str:
        message: Any = place.node["params"]["message"]
        if message.startswith("$"):
            message = found(message, place.merged, place.shared, place.given)
        if message in (None, ""):
            message = "failed"
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
        self.failed_path = place.path
        self.row(place, error=text)
        return text

    # Calls.

    def one_call(self, place: Place) -> tuple[str, str]:
        branches = Branches([place.given])
        tried = self.alone(self.branch(place, 0, branches), branches)
        row: Json = {"branch": 0, "attempt": tried.try_no, "started": tried.started}
        row["worker"] = tried.worker
        if tried.error:
            action = self.failure(place, tried.error)
            self.failed_path = place.path
            self.row(place, error=tried.error, action=action, **row)
            return action, tried.error
        return self.succeeded(place, tried.output, **row)

    def branch(self, place: Place, index: int, branches: Branches) -> Tries:
        """All tries but the last are rows of their own; the last one is the answer."""
        node = place.node
        try_no = 1
        while True:
            tried = yield from self.one_try(place, index, branches, try_no)
            is_last = try_no > node.get("max_retries", 0) or tried.is_final or branches.is_stopped
            if not tried.error or is_last:
                return tried
            self.branch_row(place, index, branches, tried, is_settled=False)
            try_no += 1
            wait = node.get("wait_ms", 0)
            if wait:
                branches.idle[index] = (try_no, -1)
                yield Event(self.now + wait, is_alarm=True, order=index)

    def one_try(self, place: Place, index: int, branches: Branches, try_no: int) -> Tries:
        node = place.node
        lost = Tried(try_no, self.now)
        began = self.now
        timeout = node.get("timeout_ms", 0)
        due = self.due(timeout)
        attempt = 1
        while True:
            self.call_count += 1
            is_inherited = node["kind"] == "flow_ref" and not node.get("prep")
            heard = place.merged.get("input") if is_inherited else branches.inputs[index]
            callee = callee_of(node, index, place.merged)
            reply = self.world(*callee, heard, try_no, attempt)
            is_child = callee[0] == "flow"
            times = (self.now + reply.after_ms, due, reply.after_ms, timeout)
            since = 0 if try_no == 1 else began
            yield Call(self.call_count, since, index, *times, is_child).event()
            is_asked = reply.worker_id is not None and not reply.is_untaken
            if callee[0] == "service" and (branches.is_late or is_asked):
                self.end_wait(place, branches, callee[1])
            if branches.is_late:
                return lost._replace(error="timeout", worker=None)
            if not reply.error:
                return lost._replace(output=reply.result, error="", worker=reply.worker_id)
            is_missing = callee[0] == "service" and not is_asked and attempt == 1
            if is_missing and self.worker_wait_ms and not branches.is_stopped:
                error = yield from self.await_worker(place, index, branches, try_no, callee[1])
                if error:
                    started = place.missing[callee[1]]
                    if not reply.is_untaken:
                        return lost._replace(error=f"{reply.error}: {error}", started=started)
                    return lost._replace(error=reply.error, worker=reply.worker_id, started=started)
                lost, due = lost._replace(started=self.now), self.due(timeout)
                continue
            lost = lost._replace(is_final=reply.is_final)
            if reply.worker_id is not None or not lost.error:
                lost = lost._replace(error=reply.error, worker=reply.worker_id)
            is_last = attempt >= (node.get("max_attempts") or FOR_EVER) or branches.is_stopped
            if is_last or reply.is_last or reply.is_final or not is_asked:
                return lost
            attempt += 1
            delay = node.get("attempt_delay_ms", 0)
            if self.crash is not Crash.NEVER:
                due = self.now + delay + (timeout or 2 * FOR_EVER)
            if delay:
                at = min(self.now + delay, due)
                branches.idle[index] = (try_no, lost.started)
                yield Event(at, is_alarm=True, order=index)
                if at == due:
                    return lost._replace(error="timeout", worker=None)

    def await_worker(
        self, place: Place, index: int, branches: Branches, try_no: int, service: str
    ) -> Generator[Event, None, str]:
        """Return why the wait for a worker ends, or an empty text if it is to be called again."""
        until = place.missing.setdefault(service, self.now) + self.worker_wait_ms
        if self.now >= until:
            return f"none offered {service!r} within {self.worker_wait_ms / 1_000:g} s"
        branches.idle[index] = (try_no, -1)
        branches.awaited[index] = service
        yield Event(until, is_alarm=True, order=index)
        del branches.awaited[index]
        return ""

    def end_wait(self, place: Place, branches: Branches, service: str) -> None:
        """A worker took a call: what others still wait for is counted from now on."""
        if service in place.missing:
            del place.missing[service]
            if service in branches.awaited.values():
                place.missing[service] = self.now

    def fan(self, place: Place) -> tuple[str, str]:
        inputs, names = self.list_branches(place)
        branches = self.all_branches(place, inputs)
        done, errors = branches.done, branches.errors
        results: Any = [done[index] for index in sorted(done)]
        if place.strategy == "collect_errors":
            named = {names[index]: errors[index] for index in sorted(errors)}
            results = {"results": [done.get(at) for at in range(len(inputs))], "errors": named}
        if not branches.is_stopped:
            return self.succeeded(place, results)
        error = next(iter(errors.values()))
        self.failure(place, error)
        self.keep(place, results)
        ordinary = "error" if self.is_strict else self.action(place, results)
        action = mapped_action(place.node, error) or ordinary
        self.failed_path = place.path
        self.rows[-1] = self.rows[-1]._replace(action=action)
        return action, error

    def list_branches(self, place: Place) -> tuple[list[Any], list[str]]:
        if place.node["kind"] == "foreach":
            if not isinstance(place.given, list):
                raise Lost("bad input: a foreach node needs a list", is_final=True)
            return place.given, [str(at) for at in range(len(place.given))]
        services = place.node.get("parallel_services") or place.merged["services"]
        names = [
            name if services.index(name) == at else f"{name}#{services[:at].count(name) + 1}"
            for at, name in enumerate(services)
        ]
        return [place.given] * len(services), names

    def all_branches(self, place: Place, inputs: list[Any]) -> Branches:
        node = place.node
        is_concurrent = node["parallel_mode"] == "concurrent"
        limit = (node["max_parallel"] or 100) if is_concurrent else 1
        branches = Branches(inputs)
        fresh = list(range(len(inputs)))
        while True:
            while fresh and len(branches.tries) < limit and not branches.is_stopped:
                index = fresh.pop(0)
                branches.tries[index] = self.branch(place, index, branches)
                self.go_on(place, index, branches)
            if not branches.tries:
                return branches
            self.go_on(place, self.next_of(branches), branches)

    def go_on(self, place: Place, index: int, branches: Branches) -> None:
        """Let a branch go on until it waits again, or is decided."""
        branches.idle.pop(index, None)
        try:
            event = next(branches.tries[index])
        except StopIteration as end:
            tried: Tried = end.value
            del branches.tries[index]
            self.branch_row(place, index, branches, tried)
            if not tried.error:
                branches.done[index] = tried.output
            else:
                branches.errors[index] = tried.error
                branches.is_stopped = branches.is_stopped or place.strategy == "fail_fast"
            if branches.is_stopped:
                self.abandon(place, branches)
        else:
            branches.waiting[index] = event

    def abandon(self, place: Place, branches: Branches) -> None:
        why = "another branch failed"
        for index, (try_no, started) in sorted(branches.idle.items()):
            del branches.tries[index], branches.waiting[index]
            branches.errors[index] = why
            began = self.now if started < 0 else started
            tried = Tried(try_no, began, error=why)
            self.branch_row(place, index, branches, tried, status="canceled")
        branches.idle.clear()

    def branch_row(
        self, place: Place, index: int, branches: Branches, tried: Tried, **row: Any
    ) -> None:
        self.row(
            place._replace(given=branches.inputs[index]),
            output=tried.output,
            error=tried.error,
            branch=index,
            attempt=tried.try_no,
            started=tried.started,
            worker=tried.worker,
            **row,
        )

    # What takes its time.

    def subflow(self, place: Place) -> Json:
        """Its shared state at the end."""
        node, depth = place.node, len(place.path)
        inner: Json = {}
        params = {**place.merged, "input": place.given} if node.get("prep") else place.merged
        if node.get("timeout_ms"):
            self.deadlines.append((self.now + node["timeout_ms"], depth))
        try:
            error = self.flow(node["subflow"], params, inner, place.path)
            failed_path = self.failed_path
        except OutOfTime as late:
            if late.depth != depth:
                raise
            error, failed_path = "timeout", ()
        finally:
            self.deadlines = [one for one in self.deadlines if one[1] != depth]
        if error:
            raise Lost(error, path=failed_path)
        return inner

    def wait(self, place: Place) -> tuple[Any, str]:
        """What came, and the action that it is."""
        is_event = place.node["kind"] == "wait_event"
        where = place.merged["signal_key" if is_event else "approval_key"]
        timeout = place.merged.get("timeout_ms", 0)
        until = self.now + timeout if timeout else FOR_EVER
        while True:
            for holder in (place.shared, self.root):
                value = found(where, place.merged, holder, place.given)
                if value is None or value == "" or (is_event and value is False):
                    continue
                if place.merged.get("consume"):
                    del holder[where.removeprefix("$shared.")]
                return value, "" if is_event else self.approved(place, value)
            next_at = self.signals[0][0] if self.signals else FOR_EVER
            if until < next_at or next_at == FOR_EVER:
                self.advance(until, is_alarm=True)
                raise Lost("timeout")
            if next_at == until:
                self.check_no_tie(next_at, Event(until, is_alarm=True, order=0))
            self.check_no_tie(next_at)
            self.advance(next_at, is_alarm=False)

    def approved(self, place: Place, value: Any) -> str:
        by_key = keyed_action(place.node, value, place.merged, place.shared, place.given)
        named = place.post.get("action_static") or by_key
        if named:
            return str(named)
        if isinstance(value, dict):
            value = value.get("approved")
        if isinstance(value, bool):
            return "approved" if value else "rejected"
        return value if isinstance(value, str) else ""

    # What nodes leave behind.

    def succeeded(
        self, place: Place, output: Any, *, action: str = "", **row: Any
    ) -> tuple[str, str]:
        self.keep(place, output)
        action = action or self.action(place, output)
        self.row(place, output=output, action=action, **row)
        return action, ""

    def keep(self, place: Place, output: Any) -> None:
        if isinstance(output, dict):
            for key, name in place.post.get("output_map", {}).items():
                place.shared[key] = output.get(name)
        if place.post.get("output_key"):
            place.shared[place.post["output_key"]] = output

    def action(self, place: Place, output: Any) -> str:
        static = place.post.get("action_static")
        by_key = keyed_action(place.node, output, place.merged, place.shared, place.given)
        return str(static or by_key or place.node.get("default_action") or "default")

    def failure(self, place: Place, error: str) -> str:
        if place.post.get("error_key"):
            place.shared[place.post["error_key"]] = error
        return mapped_action(place.node, error) or "error"

    def row(self, place: Place, **told: Any) -> None:
        error = told.get("error", "")
        values: Json = {
            "branch": None,
            "attempt": 1,
            "action": "",
            "worker": None,
            "is_settled": True,
        }
        values |= {"status": "error" if error else "ok", "error": "", "output": None}
        values |= {"started": place.entered, "finished": self.now, **told}
        text = json.dumps(values["output"])
        if len(text) > OUTPUT_LENGTH_MAX:
            raise Huge
        values["output"] = json.loads(text)
        self.rows.append(Row(path=place.path, input=place.given, **values))
