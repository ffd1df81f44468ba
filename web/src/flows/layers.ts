/** Which node stands in which column, and in which order: by the longest way from the start. */
import type { FlowEdge, FlowGraph } from "./graph";

export interface Link {
  source: string;
  target: string;
}

/** The end of an edge that ends the flow. It is drawn as a dot, and no node can be called so. */
export function endKey(source: string): string {
  return `\u0000${source}`;
}

export function isEnd(key: string): boolean {
  return key.startsWith("\u0000");
}

export function targetKey(edge: FlowEdge): string {
  return edge.target === "" ? endKey(edge.source) : edge.target;
}

/** Every edge but those of a node to itself, turned round where it leads back. */
export function forwardLinks(graph: FlowGraph): Link[] {
  const leaving = Map.groupBy(graph.edges, (edge) => edge.source);
  const links: Link[] = [];
  const left = new Set<string>();
  const entered = new Set<string>();
  for (const root of [graph.start, ...graph.nodes.keys()]) {
    if (entered.has(root) || !graph.nodes.has(root)) continue;
    entered.add(root);
    const walk = [{ key: root, next: 0 }];
    while (walk.length > 0) {
      const at = walk.at(-1) as { key: string; next: number };
      const edge = leaving.get(at.key)?.[at.next];
      at.next += 1;
      if (edge === undefined) {
        left.add(at.key);
        walk.pop();
        continue;
      }
      const target = targetKey(edge);
      if (target === at.key) continue;
      const leadsBack = entered.has(target) && !left.has(target);
      links.push(leadsBack ? { source: target, target: at.key } : { source: at.key, target });
      if (!entered.has(target) && !isEnd(target)) {
        entered.add(target);
        walk.push({ key: target, next: 0 });
      }
    }
  }
  return links;
}

export function layersOf(keys: Iterable<string>, links: Link[]): Map<string, number> {
  const waits = new Map<string, number>();
  for (const key of keys) waits.set(key, 0);
  for (const { target } of links) waits.set(target, (waits.get(target) ?? 0) + 1);
  const leaving = Map.groupBy(links, (link) => link.source);
  const layers = new Map<string, number>();
  const ready = [...waits].filter(([, count]) => count === 0).map(([key]) => key);
  for (const key of ready) layers.set(key, 0);
  for (let index = 0; index < ready.length; index += 1) {
    const key = ready[index] as string;
    for (const { target } of leaving.get(key) ?? []) {
      layers.set(target, Math.max(layers.get(target) ?? 0, (layers.get(key) as number) + 1));
      const left = (waits.get(target) as number) - 1;
      waits.set(target, left);
      if (left === 0) ready.push(target);
    }
  }
  return layers;
}

/** Puts every column into the order that crosses the fewest edges, roughly: by the mean of its neighbours. */
export function untangled(columns: string[][], links: Link[], sweepCount: number): string[][] {
  const before = neighbours(links, "target", "source");
  const after = neighbours(links, "source", "target");
  const sorted = columns.map((column) => [...column]);
  for (let sweep = 0; sweep < sweepCount; sweep += 1) {
    const isDown = sweep % 2 === 0;
    for (let step = 1; step < sorted.length; step += 1) {
      const index = isDown ? step : sorted.length - 1 - step;
      const fixed = sorted[isDown ? index - 1 : index + 1] ?? [];
      const places = new Map(fixed.map((key, place) => [key, place]));
      const column = sorted[index] as string[];
      const wished = new Map(column.map((key, place) => [key, mean((isDown ? before : after).get(key), places) ?? place]));
      column.sort((one, other) => (wished.get(one) as number) - (wished.get(other) as number));
    }
  }
  return sorted;
}

export function neighbours(links: Link[], of: "source" | "target", to: "source" | "target"): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const link of links) {
    const known = found.get(link[of]);
    if (known) known.push(link[to]);
    else found.set(link[of], [link[to]]);
  }
  return found;
}

export function mean(keys: string[] | undefined, places: Map<string, number>): number | null {
  const known = (keys ?? []).map((key) => places.get(key)).filter((place) => place !== undefined);
  return known.length === 0 ? null : known.reduce((sum, place) => sum + place, 0) / known.length;
}
