/** Which way a task has gone through its flow, and how each of its nodes stands. */
import type { NodeRunView, TaskResponse } from "../client";
import { edgeId, edgeOf, ERROR, type FlowGraph } from "../flows/graph";
import type { Lit, NodeState } from "../flows/Drawing";

export function litOf(graph: FlowGraph, task: TaskResponse, rows: NodeRunView[], isUnderWay: boolean): Lit {
  const states: Lit["states"] = new Map();
  const taken = new Set<string>();
  let at: string | null = null;
  function arrive(node: string) {
    // A subflow has no node run of its own that would tell how it was left.
    if (at !== null && at !== node) taken.add(edgeId(at, node));
    at = node;
  }
  for (const row of rows) {
    arrive(row.node);
    // What a branch did, or what a try did that was not the last, is not yet what the node did.
    const isOwn = row.path.length <= 1 && (row.branch === null || row.action !== "");
    const count = (states.get(row.node)?.count ?? 0) + (isOwn ? 1 : 0);
    states.set(row.node, { state: row.status, count });
    // A canceled task followed no edge, although its last node run has an action.
    if (!isOwn || row.action === "" || row.status === "canceled") continue;
    const isFailure = row.status === "error" || row.action === ERROR;
    const edge = edgeOf(graph, row.node, row.action, isFailure);
    if (edge) taken.add(edgeId(edge.source, edge.target));
  }
  if (isUnderWay && graph.nodes.has(task.node)) {
    arrive(task.node);
    const state: NodeState = task.waits_for === null || task.waits_for === "child" ? "running" : "waiting";
    states.set(task.node, { state, count: (states.get(task.node)?.count ?? 0) + 1 });
  }
  return { states, taken };
}
