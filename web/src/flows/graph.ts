/** A definition as a graph. It is read leniently: what is being typed is drawn as far as it goes. */
export interface FlowNode {
  key: string;
  kind: string;
  /** What it calls or waits for, in a word. */
  about: string;
  /** As the definition has it. */
  value: Record<string, unknown>;
  inside: FlowGraph | null;
}

/** All actions that lead from one node to another. */
export interface FlowEdge {
  source: string;
  target: string;
  actions: string[];
}

export interface FlowGraph {
  start: string;
  nodes: Map<string, FlowNode>;
  edges: FlowEdge[];
  /** Whether a failed node without an `error` edge fails the task. Otherwise the task follows its `default` edge. */
  failsOnError: boolean;
}

export const DEFAULT = "default";
export const ERROR = "error";
const SUBFLOW_DEPTH_MAX = 16;

export function readGraph(definition: unknown, depth = 0): FlowGraph {
  const { start, nodes, edges, error_policy } = objectOf(definition);
  const found = new Map<string, FlowNode>();
  for (const [key, node] of Object.entries(objectOf(nodes))) found.set(key, readNode(key, objectOf(node), depth));
  const failsOnError = error_policy === "fail";
  return { start: typeof start === "string" ? start : "", nodes: found, edges: readEdges(edges, found), failsOnError };
}

function readNode(key: string, value: Record<string, unknown>, depth: number): FlowNode {
  const inside = value.subflow !== undefined && depth < SUBFLOW_DEPTH_MAX ? readGraph(value.subflow, depth + 1) : null;
  return { key, kind: textOf(value.kind), about: aboutOf(value, inside), value, inside };
}

function aboutOf(value: Record<string, unknown>, inside: FlowGraph | null): string {
  if (inside) return `${inside.nodes.size} nodes`;
  const params = objectOf(value.params);
  const services = value.parallel_services ?? params.services;
  if (Array.isArray(services)) return services.map(textOf).join(", ");
  const named = [value.service, value.function, value.flow, params.signal_key, params.approval_key, params.message].map(textOf).find((one) => one !== "");
  if (named !== undefined) return named;
  return typeof params.delay_ms === "number" ? `${params.delay_ms.toLocaleString("en")} ms` : "";
}

function readEdges(value: unknown, nodes: Map<string, FlowNode>): FlowEdge[] {
  const found = new Map<string, FlowEdge>();
  for (const one of Array.isArray(value) ? value : []) {
    const edge = objectOf(one);
    const [source, target] = [textOf(edge.from), textOf(edge.to)];
    if (!nodes.has(source) || (target !== "" && !nodes.has(target))) continue;
    const id = edgeId(source, target);
    const known = found.get(id) ?? { source, target, actions: [] };
    known.actions.push(textOf(edge.action) || DEFAULT);
    found.set(id, known);
  }
  return [...found.values()];
}

/** An edge without a target ends the flow. */
export function edgeId(source: string, target: string): string {
  return JSON.stringify([source, target]);
}

/** The edge of an action: its own, else the fallback. After a failure the definition's policy decides the fallback. */
export function edgeOf(graph: FlowGraph, source: string, action: string, isFailure: boolean): FlowEdge | undefined {
  const leaving = graph.edges.filter((edge) => edge.source === source);
  const fallback = isFailure && graph.failsOnError ? ERROR : DEFAULT;
  return leaving.find((edge) => edge.actions.includes(action)) ?? leaving.find((edge) => edge.actions.includes(fallback));
}

/** All nodes from the start on: a node stands behind those that lead to it, unless the way goes in a circle. */
export function walked(graph: FlowGraph): string[] {
  const leaving = Map.groupBy(graph.edges, (edge) => edge.source);
  const entered = new Set<string>();
  // As deep as the longest way: a flow has two thousand nodes at most.
  function walk(key: string, left: string[]): string[] {
    entered.add(key);
    for (const { target } of leaving.get(key)?.toReversed() ?? []) {
      if (target !== "" && !entered.has(target)) walk(target, left);
    }
    left.push(key);
    return left;
  }
  const order: string[] = [];
  for (const root of [graph.start, ...graph.nodes.keys()]) {
    if (graph.nodes.has(root) && !entered.has(root)) order.push(...walk(root, []).reverse());
  }
  return order;
}

export function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
