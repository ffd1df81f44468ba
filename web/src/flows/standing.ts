/** Where the tasks of a flow stand now. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { answerOf, queries } from "../api";
import { listTasks, type TaskView } from "../client";
import { useMoves } from "../news";
import type { Lit, NodeState } from "./Drawing";

const COUNT_MAX = 500;
const AGAIN_MS = 5_000;

/** Of those that moved last, so many at most. */
export function useStanding(flow: string): Lit | undefined {
  const queryKey = ["tasks", flow, "standing"];
  const { data } = useQuery({
    queryKey,
    queryFn: () => answerOf(listTasks({ query: { flow, status: "running", limit: COUNT_MAX } })),
    refetchInterval: AGAIN_MS,
  });
  useMoves(() => void queries.invalidateQueries({ queryKey }));
  return useMemo(() => (data ? { states: statesOf(data.tasks), taken: null } : undefined), [data]);
}

/** A node at which one is running is running, whoever else waits there. */
function statesOf(tasks: TaskView[]): Lit["states"] {
  const states: Lit["states"] = new Map();
  for (const task of tasks) {
    const before = states.get(task.node);
    const state: NodeState = before?.state === "running" || task.waits_for === null ? "running" : "waiting";
    states.set(task.node, { state, count: (before?.count ?? 0) + 1 });
  }
  return states;
}
