/** Where the tasks of a flow stand now. */
import { useMemo } from "react";
import type { TaskResponse } from "../client";
import type { Lit, NodeState } from "./Drawing";
import { useUnderWay } from "./underWay";

export function useStanding(flow: string): Lit | undefined {
  const tasks = useUnderWay(flow);
  return useMemo(() => (tasks ? { states: statesOf(tasks), taken: null } : undefined), [tasks]);
}

/** A node at which one is running is running, whoever else waits there. */
function statesOf(tasks: TaskResponse[]): Lit["states"] {
  const states: Lit["states"] = new Map();
  for (const task of tasks) {
    const before = states.get(task.node);
    const state: NodeState = before?.state === "running" || task.waits_for === null ? "running" : "waiting";
    states.set(task.node, { state, count: (before?.count ?? 0) + 1 });
  }
  return states;
}
