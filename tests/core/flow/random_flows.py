"""Random valid flows, and callees that answer the same call the same way every time."""

import json
import zlib
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.core.flow.driver import Reply
from tests.core.flow.reference_parts import CalleeModel, Signals
from tests.core.flow.reference_values import Json

KEYS: Final = ("a", "b", "c")
ACTIONS: Final = ("x", "y", "default", "error", "late")
SERVICES: Final = ("s1", "s2", "s3")
PARAMS: Final[Json] = {
    "n": 3,
    "word": "x",
    "items": [1, 2, 3, 4, 5],
    "few": ["p", {"q": 1}],
    "none": [],
    "deep": {"list": [10, {"word": "y"}]},
    "services": ["s1", "s2", "s1"],
}
PATHS: Final = (
    "a", "b", "$shared.a", "$shared.c.v", "$shared.a[0]", "$params.n", "$params.word",
    "$params.deep.list[1].word", "$params.items", "$input", "$input.v",
)  # fmt: skip
LISTS: Final = ("$params.items", "$params.few", "$params.none", "$shared.a", "b", "$input")
LITERALS: Final = (None, True, False, 3, 3.0, "3", "x", "", [1, 2], {"v": 1}, 2.5)


@dataclass(frozen=True)
class Feature:
    """The features that generated flows may use. A crash changes times, so it limits them."""

    call_timeouts: bool = True
    subflow_timeouts: bool = True
    concurrent_fail_fast: bool = True
    late_signals: bool = True
    is_uneven: bool = False
    """True if times are chosen so that two things rarely happen at the same instant."""

    def ms(self, chance: Random, *choices: int) -> int:
        chosen = chance.choice(choices)
        return chosen + chance.choice((1, 2, 3, 4)) if chosen and self.is_uneven else chosen


def make_callees(seed: int) -> CalleeModel:
    def answer(kind: str, name: str, call_input: Any, try_no: int, attempt: int) -> Reply:
        text = f"{seed}/{kind}/{name}/{json.dumps(call_input, sort_keys=True)}/{try_no}/{attempt}"
        number = zlib.crc32(text.encode())
        after_ms = 10 * (1 + number % 5)
        worker_id = f"w{attempt}" if kind == "service" else None
        match (number >> 8) % 12:
            case 0:
                is_gone = kind == "service" and number % 3 == 0
                missing = Reply(after_ms, error="no worker", worker_id=None)
                gone = Reply(after_ms, error="gone", worker_id=worker_id, is_untaken=True)
                return gone if is_gone else missing
            case 1:
                return Reply(after_ms, error="broken", worker_id=worker_id, is_final=True)
            case 2 | 3 | 4 as luck:
                is_last = kind == "service" and luck == 4
                return Reply(after_ms, error="bad: luck", worker_id=worker_id, is_last=is_last)
            case 5:
                return Reply(after_ms, {"action": "x", "v": number % 7}, worker_id=worker_id)
            case 6:
                return Reply(after_ms, {"action": "y", "v": [1, 2]}, worker_id=worker_id)
            case 7:
                return Reply(after_ms, [1, "two", {"v": 3}], worker_id=worker_id)
            case 8:
                return Reply(after_ms, "late", worker_id=worker_id)
            case _:
                return Reply(after_ms, number % 10, worker_id=worker_id)

    return answer


def expression(chance: Random, depth: int = 2) -> Json:
    kind = chance.randrange(6) if depth else 0
    if kind in (3, 4):
        inner = [expression(chance, depth - 1) for _ in range(chance.randint(1, 3))]
        return {"and" if kind == 3 else "or": inner}
    if kind == 5:
        return {"not": expression(chance, depth - 1)}
    name = chance.choice(("eq", "ne", "gt", "lt", "ge", "le", "in", "contains", "exists"))
    if name == "exists":
        return {"exists": chance.choice(("$shared.a", "$params.n", "$input", "$shared.c.v"))}
    return {name: [chance.choice((*LITERALS, *PATHS)), chance.choice((*LITERALS, *PATHS))]}


def a_flow(chance: Random, feature: Feature, depth: int = 2) -> Json:
    keys = [f"n{at}" for at in range(chance.randint(1, 5 if depth == 2 else 3))]
    pairs = [(key, action) for key in keys for action in ACTIONS if chance.randrange(5) < 2]
    edges = [
        {"from": key, "action": action, "to": chance.choice([*keys, *keys, ""])}
        for key, action in pairs
    ]
    nodes = {key: a_node(chance, feature, depth) for key in keys}
    return {"start": keys[0], "nodes": nodes, "edges": edges}


def a_definition(chance: Random, feature: Feature) -> Json:
    """Return a whole flow, with one error policy for itself and its subflows."""
    policy = chance.choice(["follow_default", "fail"])
    drawn = a_flow(chance, feature) | {"error_policy": policy}
    if policy == "fail":
        drawn["worker_wait_ms"] = feature.ms(chance, 0, 40, 90)
    return drawn


def a_node(chance: Random, feature: Feature, depth: int) -> Json:
    kinds = ["executor", "executor", "local", "choice", "parallel", "foreach", "flow_ref"]
    kinds += ["timer", "wait_event", "approval", "fail"] + (["subflow"] * 3 if depth else [])
    kind = chance.choice(kinds)
    node: Json = {"kind": kind, "post": _post(chance)}
    if chance.randrange(2):
        node["prep"] = _prep(chance)
    if not chance.randrange(4):
        node["default_action"] = chance.choice(ACTIONS)
    if not chance.randrange(3):
        mapping = {"timeout": "late", "bad": "x", "*": "y"}
        node["on_error"] = chance.choice([mapping, "late", {"no worker": "y"}])
    if kind not in ("choice", "timer", "fail") and chance.randrange(2):
        node["max_retries"] = chance.randrange(3)
        node["wait_ms"] = feature.ms(chance, 0, 20, 30)
    match kind:
        case "parallel" | "foreach":
            _fill_fan(chance, node, feature)
        case "subflow":
            node["subflow"] = a_flow(chance, feature, depth - 1)
            if feature.subflow_timeouts and chance.randrange(2):
                node["timeout_ms"] = feature.ms(chance, 30, 60, 100)
        case "choice":
            node["choice_cases"] = [
                {"action": chance.choice(ACTIONS), "expr": expression(chance)}
                for _ in range(chance.randrange(4))
            ]
        case "fail":
            node["params"] = {"message": chance.choice(["boom", "$shared.a", "$params.word"])}
        case "timer" | "wait_event" | "approval":
            _fill_wait(chance, node, feature)
        case _:
            field = {"executor": "service", "local": "function", "flow_ref": "flow"}[kind]
            node[field] = chance.choice(SERVICES)
            _fill_attempts(chance, node, feature)
    return node


def _fill_attempts(chance: Random, node: Json, feature: Feature) -> None:
    if node["kind"] != "local" and "function" not in node and "flow" not in node:
        node["max_attempts"] = chance.randrange(4)
        node["attempt_delay_ms"] = feature.ms(chance, 0, 10, 30)
    if feature.call_timeouts and chance.randrange(2):
        node["timeout_ms"] = feature.ms(chance, 20, 40, 60)


def _fill_fan(chance: Random, node: Json, feature: Feature) -> None:
    if node["kind"] == "foreach":
        node["prep"] = {"input_key": chance.choice(LISTS)}
        node[chance.choice(["service", "function", "flow"])] = chance.choice(SERVICES)
    elif chance.randrange(2):
        node["parallel_services"] = chance.choices(SERVICES, k=chance.randint(1, 4))
    node["parallel_mode"] = chance.choice(["sequential", "concurrent"])
    node["max_parallel"] = chance.randrange(4)
    strategies = ["fail_fast", "collect_errors", "ignore_errors"]
    if node["parallel_mode"] == "concurrent" and not feature.concurrent_fail_fast:
        strategies.remove("fail_fast")
    node["failure_strategy"] = chance.choice(strategies)
    _fill_attempts(chance, node, feature)


def _fill_wait(chance: Random, node: Json, feature: Feature) -> None:
    if node["kind"] == "timer":
        node["params"] = {"delay_ms": feature.ms(chance, 0, 10, 40)}
        return
    name = "signal_key" if node["kind"] == "wait_event" else "approval_key"
    at = chance.choice(["$shared.a", "b", "$shared.c", "$shared.c.v", "$params.word"])
    node["params"] = {name: at}
    if at not in ("$shared.c.v", "$params.word") and chance.randrange(2):
        node["params"]["consume"] = True
    if chance.randrange(4):
        node["params"]["timeout_ms"] = feature.ms(chance, 20, 50)


def _prep(chance: Random) -> Json:
    if chance.randrange(2):
        return {"input_key": chance.choice(PATHS)}
    names = chance.sample(["v", "w", "action"], k=chance.randint(1, 3))
    return {"input_map": {name: chance.choice(PATHS) for name in names}}


def _post(chance: Random) -> Json:
    post: Json = {}
    if chance.randrange(2):
        post["output_key"] = chance.choice(KEYS)
    if not chance.randrange(4):
        fields = ["v", "action", "results", "errors"]
        post["output_map"] = {chance.choice(KEYS): chance.choice(fields)}
    if not chance.randrange(4):
        post["action_static"] = chance.choice(ACTIONS)
    if chance.randrange(2):
        keys = ["action", "a", "$shared.b", "$input.action", "$params.word"]
        post["action_key"] = chance.choice(keys)
    if not chance.randrange(4):
        post["error_key"] = chance.choice(KEYS)
    return post


def signals(chance: Random, feature: Feature) -> Signals:
    values = [True, False, "x", "", None, 4, {"approved": False, "v": 1}, [1]]
    times = [10 * at + 5 for at in range(21)] if feature.late_signals else [3, 5, 7]
    chosen = chance.sample(times, k=chance.randrange(4))
    return [(at, chance.choice(KEYS), chance.choice(values)) for at in chosen]
