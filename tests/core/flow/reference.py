"""The meaning of a flow, implemented a second time: plain recursion over its JSON definition.

Nothing of the engine is used here.
"""

import json
from collections.abc import Generator
from typing import Any

from tests.core.flow.driver import Crash
from tests.core.flow.reference_parts import (
    FOREVER_MS,
    Branches,
    Call,
    CalleeModel,
    Event,
    NodeVisit,
    NothingPending,
    OutputTooLarge,
    Row,
    RunEnded,
    Signals,
    SubflowTimeout,
    Tries,
    TryFailed,
    TryOutcome,
)
from tests.core.flow.reference_time import Timeline
from tests.core.flow.reference_values import (
    Json,
    build_input,
    find_callee,
    holds,
    keyed_action,
    mapped_action,
    read_path,
)

OUTPUT_LENGTH_MAX = 20_000


class Reference(Timeline):
    def __init__(
        self,
        definition: Json,
        params: Json,
        callees: CalleeModel,
        *,
        signals: Signals,
        row_count_max: int,
        crash: Crash = Crash.NEVER,
    ) -> None:
        """`crash` states what happens to the process after every commit."""
        super().__init__(signals, crash)
        self.definition = definition
        self.params = params
        self.callees = callees
        self.row_count_max = row_count_max
        self.rows: list[Row] = []
        self.status: str | None = None
        self.error = ""
        self.is_strict = definition.get("error_policy") == "fail"
        self.worker_wait_ms = definition.get("worker_wait_ms", 300_000) if self.is_strict else 0
        self.failed_path: tuple[str, ...] = ()

    def run(self) -> "Reference":
        try:
            self.error = self.run_flow(self.definition, self.params, self.root, ())
        except RunEnded as over:
            self.error = over.error
        except NothingPending:
            return self
        self.status = "failed" if self.error else "succeeded"
        return self

    # The graph.

    def run_flow(self, flow: Json, params: Json, shared: Json, path: tuple[str, ...]) -> str:
        """Run a flow, and return its error or an empty text."""
        key = flow["start"]
        while True:
            action, error = self.run_node(flow["nodes"][key], params, shared, (*path, key))
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
                raise RunEnded("too_many_steps")
            key = target

    def run_node(
        self, node: Json, params: Json, shared: Json, path: tuple[str, ...]
    ) -> tuple[str, str]:
        """Run a node, and return its action and its error."""
        try_no = 1
        merged = {**params, **node.get("params", {})}
        while True:
            node_input = build_input(node, merged, params, shared)
            visit = NodeVisit(node, merged, shared, node_input, path, self.now, {})
            try:
                return self.run_kind(visit, try_no)
            except TryFailed as lost:
                if lost.is_final or try_no > node.get("max_retries", 0):
                    action = self.write_error(visit, lost.error)
                    self.failed_path = lost.path or path
                    self.add_row(visit, error=lost.error, action=action, attempt=try_no)
                    return action, lost.error
                self.add_row(visit, error=lost.error, attempt=try_no, is_settled=False)
            try_no += 1
            wait = node.get("wait_ms", 0)
            if wait:
                self.advance(self.now + wait, is_alarm=True)

    def run_kind(self, visit: NodeVisit, try_no: int) -> tuple[str, str]:
        match visit.node["kind"]:
            case "choice":
                return self.finish_node(visit, visit.input, action=self.choose_action(visit))
            case "executor" | "local" | "flow_ref":
                return self.run_call(visit)
            case "parallel" | "foreach":
                return self.run_fan(visit)
            case "subflow":
                inner = self.run_subflow(visit)
                self.write_output(visit, inner)
                return self.output_action(visit, inner), ""
            case "fail":
                raise RunEnded(self.fail_run(visit))
            case "timer":
                delay = visit.merged["delay_ms"]
                if delay:
                    self.advance(self.now + delay, is_alarm=True)
                return self.finish_node(visit, visit.input, attempt=try_no)
            case _:
                value, action = self.run_wait(visit)
                return self.finish_node(visit, value, action=action, attempt=try_no)

    def choose_action(self, visit: NodeVisit) -> str:
        for case in visit.node["choice_cases"]:
            if holds(case["expr"], visit.merged, visit.shared, visit.input):
                return str(case["action"])
        return ""

    def fail_run(self, visit: NodeVisit) -> str:
        message: Any = visit.node["params"]["message"]
        if message.startswith("$"):
            message = read_path(message, visit.merged, visit.shared, visit.input)
        if message in (None, ""):
            message = "failed"
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
        self.failed_path = visit.path
        self.add_row(visit, error=text)
        return text

    # Calls.

    def run_call(self, visit: NodeVisit) -> tuple[str, str]:
        branches = Branches([visit.input])
        outcome = self.run_alone(self.run_branch(visit, 0, branches), branches)
        columns: Json = {"branch": 0, "attempt": outcome.try_no, "started": outcome.started}
        columns["worker"] = outcome.worker
        if outcome.error:
            action = self.write_error(visit, outcome.error)
            self.failed_path = visit.path
            self.add_row(visit, error=outcome.error, action=action, **columns)
            return action, outcome.error
        return self.finish_node(visit, outcome.output, **columns)

    def run_branch(self, visit: NodeVisit, index: int, branches: Branches) -> Tries:
        """Run a branch. Add a row for each try but the last, and return the last."""
        node = visit.node
        try_no = 1
        while True:
            outcome = yield from self.run_try(visit, index, branches, try_no)
            is_last = try_no > node.get("max_retries", 0) or outcome.is_final or branches.is_stopped
            if not outcome.error or is_last:
                return outcome
            self.add_branch_row(visit, index, branches, outcome, is_settled=False)
            try_no += 1
            wait = node.get("wait_ms", 0)
            if wait:
                branches.idle[index] = (try_no, -1)
                yield Event(self.now + wait, is_alarm=True, order=index)

    def run_try(self, visit: NodeVisit, index: int, branches: Branches, try_no: int) -> Tries:
        node = visit.node
        outcome, began, attempt = TryOutcome(try_no, self.now), self.now, 1
        timeout = node.get("timeout_ms", 0)
        due = self.due_at(timeout)
        while True:
            self.call_count += 1
            is_inherited = node["kind"] == "flow_ref" and not node.get("prep")
            call_input = visit.merged.get("input") if is_inherited else branches.inputs[index]
            callee = find_callee(node, index, visit.merged)
            reply = self.callees(*callee, call_input, try_no, attempt)
            is_child = callee[0] == "flow"
            times = (self.now + reply.after_ms, due, reply.after_ms, timeout)
            since = 0 if try_no == 1 else began
            yield Call(self.call_count, since, index, *times, is_child).event()
            is_asked = reply.worker_id is not None and not reply.is_untaken
            if callee[0] == "service" and (branches.is_late or is_asked):
                self.end_wait(visit, branches, callee[1])
            if branches.is_late:
                return outcome._replace(error="timeout", worker=None)
            if not reply.error:
                return outcome._replace(output=reply.result, error="", worker=reply.worker_id)
            is_missing = callee[0] == "service" and not is_asked and attempt == 1
            if is_missing and self.worker_wait_ms and not branches.is_stopped:
                error = yield from self.await_worker(visit, index, branches, try_no, callee[1])
                if error:
                    started = visit.missing[callee[1]]
                    if not reply.is_untaken:
                        return outcome._replace(error=f"{reply.error}: {error}", started=started)
                    outcome = outcome._replace(error=reply.error, started=started)
                    return outcome._replace(worker=reply.worker_id)
                outcome, due = outcome._replace(started=self.now), self.due_at(timeout)
                continue
            outcome = outcome._replace(is_final=reply.is_final)
            if reply.worker_id is not None or not outcome.error:
                outcome = outcome._replace(error=reply.error, worker=reply.worker_id)
            is_last = attempt >= (node.get("max_attempts") or FOREVER_MS) or branches.is_stopped
            if is_last or reply.is_last or reply.is_final or not is_asked:
                return outcome
            attempt += 1
            delay = node.get("attempt_delay_ms", 0)
            if self.crash is not Crash.NEVER:
                due = self.now + delay + (timeout or 2 * FOREVER_MS)
            if delay:
                at = min(self.now + delay, due)
                branches.idle[index] = (try_no, outcome.started)
                yield Event(at, is_alarm=True, order=index)
                if at == due:
                    return outcome._replace(error="timeout", worker=None)

    def await_worker(
        self, visit: NodeVisit, index: int, branches: Branches, try_no: int, service: str
    ) -> Generator[Event, None, str]:
        """Return why the wait for a worker ends, or an empty text if the call is made again."""
        wait_ends_at = visit.missing.setdefault(service, self.now) + self.worker_wait_ms
        if self.now >= wait_ends_at:
            return f"none offered {service!r} within {self.worker_wait_ms / 1_000:g} s"
        branches.idle[index] = (try_no, -1)
        branches.awaited[index] = service
        yield Event(wait_ends_at, is_alarm=True, order=index)
        del branches.awaited[index]
        return ""

    def end_wait(self, visit: NodeVisit, branches: Branches, service: str) -> None:
        """Restart the wait of the other branches, because a worker took a call."""
        if service in visit.missing:
            del visit.missing[service]
            if service in branches.awaited.values():
                visit.missing[service] = self.now

    def run_fan(self, visit: NodeVisit) -> tuple[str, str]:
        inputs, names = self.list_branches(visit)
        branches = self.run_all_branches(visit, inputs)
        done, errors = branches.done, branches.errors
        results: Any = [done[index] for index in sorted(done)]
        if visit.strategy == "collect_errors":
            named = {names[index]: errors[index] for index in sorted(errors)}
            results = {"results": [done.get(at) for at in range(len(inputs))], "errors": named}
        if not branches.is_stopped:
            return self.finish_node(visit, results)
        error = next(iter(errors.values()))
        self.write_error(visit, error)
        self.write_output(visit, results)
        ordinary = "error" if self.is_strict else self.output_action(visit, results)
        action = mapped_action(visit.node, error) or ordinary
        self.failed_path = visit.path
        self.rows[-1] = self.rows[-1]._replace(action=action)
        return action, error

    def list_branches(self, visit: NodeVisit) -> tuple[list[Any], list[str]]:
        if visit.node["kind"] == "foreach":
            if not isinstance(visit.input, list):
                raise TryFailed("bad input: a foreach node needs a list", is_final=True)
            return visit.input, [str(at) for at in range(len(visit.input))]
        services = visit.node.get("parallel_services") or visit.merged["services"]
        names = [
            name if services.index(name) == at else f"{name}#{services[:at].count(name) + 1}"
            for at, name in enumerate(services)
        ]
        return [visit.input] * len(services), names

    def run_all_branches(self, visit: NodeVisit, inputs: list[Any]) -> Branches:
        node = visit.node
        is_concurrent = node["parallel_mode"] == "concurrent"
        limit = (node["max_parallel"] or 100) if is_concurrent else 1
        branches = Branches(inputs)
        fresh = list(range(len(inputs)))
        while True:
            while fresh and len(branches.tries) < limit and not branches.is_stopped:
                index = fresh.pop(0)
                branches.tries[index] = self.run_branch(visit, index, branches)
                self.resume_branch(visit, index, branches)
            if not branches.tries:
                return branches
            self.resume_branch(visit, self.wait_for_next(branches), branches)

    def resume_branch(self, visit: NodeVisit, index: int, branches: Branches) -> None:
        """Continue a branch until it waits again or has ended."""
        branches.idle.pop(index, None)
        try:
            event = next(branches.tries[index])
        except StopIteration as end:
            outcome: TryOutcome = end.value
            del branches.tries[index]
            self.add_branch_row(visit, index, branches, outcome)
            if not outcome.error:
                branches.done[index] = outcome.output
            else:
                branches.errors[index] = outcome.error
                branches.is_stopped = branches.is_stopped or visit.strategy == "fail_fast"
            if branches.is_stopped:
                self.cancel_idle_branches(visit, branches)
        else:
            branches.waiting[index] = event

    def cancel_idle_branches(self, visit: NodeVisit, branches: Branches) -> None:
        why = "another branch failed"
        for index, (try_no, started) in sorted(branches.idle.items()):
            del branches.tries[index], branches.waiting[index]
            branches.errors[index] = why
            began = self.now if started < 0 else started
            outcome = TryOutcome(try_no, began, error=why)
            self.add_branch_row(visit, index, branches, outcome, status="canceled")
        branches.idle.clear()

    def add_branch_row(
        self, visit: NodeVisit, index: int, branches: Branches, outcome: TryOutcome, **row: Any
    ) -> None:
        self.add_row(
            visit._replace(input=branches.inputs[index]),
            output=outcome.output,
            error=outcome.error,
            branch=index,
            attempt=outcome.try_no,
            started=outcome.started,
            worker=outcome.worker,
            **row,
        )

    # Subflows and waits.

    def run_subflow(self, visit: NodeVisit) -> Json:
        """Run a subflow, and return its shared state at the end."""
        node, depth = visit.node, len(visit.path)
        inner: Json = {}
        params = {**visit.merged, "input": visit.input} if node.get("prep") else visit.merged
        if node.get("timeout_ms"):
            self.deadlines.append((self.now + node["timeout_ms"], depth))
        try:
            error = self.run_flow(node["subflow"], params, inner, visit.path)
            failed_path = self.failed_path
        except SubflowTimeout as late:
            if late.depth != depth:
                raise
            error, failed_path = "timeout", ()
        finally:
            self.deadlines = [deadline for deadline in self.deadlines if deadline[1] != depth]
        if error:
            raise TryFailed(error, path=failed_path)
        return inner

    def run_wait(self, visit: NodeVisit) -> tuple[Any, str]:
        """Wait for a signal or an answer, and return its value and the action."""
        is_event = visit.node["kind"] == "wait_event"
        key_path = visit.merged["signal_key" if is_event else "approval_key"]
        timeout = visit.merged.get("timeout_ms", 0)
        timeout_at = self.now + timeout if timeout else FOREVER_MS
        while True:
            for holder in (visit.shared, self.root):
                value = read_path(key_path, visit.merged, holder, visit.input)
                if value is None or value == "" or (is_event and value is False):
                    continue
                if visit.merged.get("consume"):
                    del holder[key_path.removeprefix("$shared.")]
                return value, "" if is_event else self.approval_action(visit, value)
            next_at = self.signals[0][0] if self.signals else FOREVER_MS
            if timeout_at < next_at or next_at == FOREVER_MS:
                self.advance(timeout_at, is_alarm=True)
                raise TryFailed("timeout")
            if next_at == timeout_at:
                self.check_no_tie(next_at, Event(timeout_at, is_alarm=True, order=0))
            self.check_no_tie(next_at)
            self.advance(next_at, is_alarm=False)

    def approval_action(self, visit: NodeVisit, value: Any) -> str:
        by_key = keyed_action(visit.node, value, visit.merged, visit.shared, visit.input)
        named = visit.post.get("action_static") or by_key
        if named:
            return str(named)
        if isinstance(value, dict):
            value = value.get("approved")
        if isinstance(value, bool):
            return "approved" if value else "rejected"
        return value if isinstance(value, str) else ""

    # Outputs, actions and rows.

    def finish_node(
        self, visit: NodeVisit, output: Any, *, action: str = "", **row: Any
    ) -> tuple[str, str]:
        self.write_output(visit, output)
        action = action or self.output_action(visit, output)
        self.add_row(visit, output=output, action=action, **row)
        return action, ""

    def write_output(self, visit: NodeVisit, output: Any) -> None:
        if isinstance(output, dict):
            for key, name in visit.post.get("output_map", {}).items():
                visit.shared[key] = output.get(name)
        if visit.post.get("output_key"):
            visit.shared[visit.post["output_key"]] = output

    def output_action(self, visit: NodeVisit, output: Any) -> str:
        static = visit.post.get("action_static")
        by_key = keyed_action(visit.node, output, visit.merged, visit.shared, visit.input)
        return str(static or by_key or visit.node.get("default_action") or "default")

    def write_error(self, visit: NodeVisit, error: str) -> str:
        if visit.post.get("error_key"):
            visit.shared[visit.post["error_key"]] = error
        return mapped_action(visit.node, error) or "error"

    def add_row(self, visit: NodeVisit, **columns: Any) -> None:
        error = columns.get("error", "")
        values: Json = {
            "branch": None,
            "attempt": 1,
            "action": "",
            "worker": None,
            "is_settled": True,
        }
        values |= {"status": "error" if error else "ok", "error": "", "output": None}
        values |= {"started": visit.entered, "finished": self.now, **columns}
        text = json.dumps(values["output"])
        if len(text) > OUTPUT_LENGTH_MAX:
            raise OutputTooLarge
        values["output"] = json.loads(text)
        self.rows.append(Row(path=visit.path, input=visit.input, **values))
