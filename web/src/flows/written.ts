/** A definition as text to be read: the start first, then the nodes as they are walked. */
import { objectOf, readGraph, walked } from "./graph";

export function written(definition: unknown): string {
  return JSON.stringify(inOrder(definition), null, 2);
}

function inOrder(definition: unknown): unknown {
  const { start, nodes, edges, ...others } = objectOf(definition);
  const ranks = new Map(walked(readGraph(definition)).map((key, index) => [key, index]));
  const rank = (key: unknown) => ranks.get(String(key)) ?? 0;
  const found = Object.entries(objectOf(nodes)).sort(([one], [other]) => rank(one) - rank(other));
  const drawn = Array.isArray(edges) ? edges.map(objectOf) : [];
  drawn.sort((one, other) => rank(one.from) - rank(other.from));
  return {
    start,
    nodes: Object.fromEntries(found.map(([key, node]) => [key, nodeInOrder(objectOf(node))])),
    edges: drawn.map(({ from, action, to, ...more }) => ({ from, action, to, ...more })),
    ...others,
  };
}

function nodeInOrder({ kind, subflow, ...others }: Record<string, unknown>): unknown {
  return { kind, ...others, ...(subflow === undefined ? {} : { subflow: inOrder(subflow) }) };
}

export const EXAMPLE = written({
  start: "decide",
  nodes: {
    decide: {
      kind: "choice",
      prep: { input_key: "$params.amount" },
      choice_cases: [{ action: "large", expr: { gt: ["$input", 100] } }],
      default_action: "small",
    },
    ask: { kind: "approval", params: { approval_key: "$shared.ok" } },
    wait: { kind: "timer", params: { delay_ms: 1000 } },
  },
  edges: [
    { from: "decide", action: "large", to: "ask" },
    { from: "decide", action: "small", to: "wait" },
    { from: "ask", action: "approved", to: "wait" },
  ],
});
