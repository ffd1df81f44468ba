/** Where everything of a graph is drawn: columns from left to right, edges as curves between them. */
import { edgeId, type FlowEdge, type FlowGraph } from "./graph";
import { forwardLinks, isEnd, layersOf, type Link, mean, neighbours, targetKey, untangled } from "./layers";

export interface Place {
  key: string;
  column: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Curve {
  id: string;
  edge: FlowEdge;
  path: string;
  label: { x: number; y: number; text: string };
}

export interface Layout {
  places: Map<string, Place>;
  curves: Curve[];
  width: number;
  height: number;
}

const NODE = { width: 168, height: 52 };
const END = { width: 14, height: 14 };
const BEND = { width: 0, height: 12 };
const MARGIN = 24;
const APART = 26;
const GAP = { least: 64, most: 190 };
const LETTER_WIDTH = 6.4;
const LABEL_LENGTH_MAX = 24;
const SWEEP_COUNT = 8;
/** Larger graphs are drawn with straight ways: it must be done in the time of a click. */
const BEND_COUNT_MAX = 4_000;

interface Way {
  edge: FlowEdge;
  /** From its source to its target, over the bends between. */
  keys: string[];
}

export function layoutOf(graph: FlowGraph): Layout {
  const links = forwardLinks(graph);
  const layers = layersOf(graph.nodes.keys(), links);
  const { ways, inner } = waysOf(graph, layers);
  const columns: string[][] = [];
  for (const [key, layer] of layers) (columns[layer] ??= []).push(key);
  const sorted = untangled(columns, inner, SWEEP_COUNT);
  const lefts = leftsOf(sorted.length, ways, layers);
  const tops = topsOf(sorted, inner);
  const least = Math.min(0, ...tops.values());
  const places = new Map<string, Place>();
  for (const [column, keys] of sorted.entries()) {
    for (const key of keys) {
      const size = sizeOf(key);
      places.set(key, { key, column, x: lefts[column] as number, y: (tops.get(key) as number) - least + MARGIN, ...size });
    }
  }
  const curves = ways.map((way) => curveOf(way, places));
  let [width, height] = [0, 0];
  for (const place of places.values()) {
    width = Math.max(width, place.x + place.width + MARGIN);
    height = Math.max(height, place.y + place.height + MARGIN);
  }
  return { places, curves, width, height };
}

function sizeOf(key: string): { width: number; height: number } {
  if (isBend(key)) return BEND;
  return isEnd(key) ? END : NODE;
}

function isBend(key: string): boolean {
  return key.startsWith("\u0001");
}

/** A way that crosses columns bends in each of them, so that it leads past the nodes there. */
function waysOf(graph: FlowGraph, layers: Map<string, number>): { ways: Way[]; inner: Link[] } {
  const ways: Way[] = [];
  const inner: Link[] = [];
  let bendCount = 0;
  for (const edge of graph.edges) {
    const target = targetKey(edge);
    const [from, to] = [layers.get(edge.source) ?? 0, layers.get(target) ?? 0];
    const step = to >= from ? 1 : -1;
    const keys = [edge.source];
    for (let layer = from + step; layer * step < to * step && bendCount < BEND_COUNT_MAX; layer += step) {
      const bend = `\u0001${bendCount}`;
      bendCount += 1;
      layers.set(bend, layer);
      keys.push(bend);
    }
    keys.push(target);
    ways.push({ edge, keys });
    for (let index = 1; index < keys.length; index += 1) {
      const [one, other] = [keys[index - 1] as string, keys[index] as string];
      inner.push(step === 1 ? { source: one, target: other } : { source: other, target: one });
    }
  }
  return { ways, inner };
}

/** The gap behind a column is as wide as the longest label in it. */
function leftsOf(count: number, ways: Way[], layers: Map<string, number>): number[] {
  const gaps = new Array<number>(count).fill(GAP.least);
  for (const { edge, keys } of ways) {
    const first = Math.min(...keys.slice(0, 2).map((key) => layers.get(key) ?? 0));
    const wanted = labelOf(edge).length * LETTER_WIDTH + 36;
    gaps[first] = Math.min(GAP.most, Math.max(gaps[first] ?? 0, wanted));
  }
  const lefts = [MARGIN];
  for (let column = 1; column < count; column += 1) {
    lefts.push((lefts[column - 1] as number) + NODE.width + (gaps[column - 1] as number));
  }
  return lefts;
}

/** Every node as near to its neighbours as those above and below it let it be. */
function topsOf(columns: string[][], links: Link[]): Map<string, number> {
  const middles = new Map<string, number>();
  for (const column of columns) {
    let at = 0;
    for (const key of column) {
      const { height } = sizeOf(key);
      middles.set(key, at + height / 2);
      at += height + APART;
    }
    for (const key of column) middles.set(key, (middles.get(key) as number) - at / 2);
  }
  const before = neighbours(links, "target", "source");
  const after = neighbours(links, "source", "target");
  for (let sweep = 0; sweep < SWEEP_COUNT; sweep += 1) {
    const ordered = sweep % 2 === 0 ? columns : columns.toReversed();
    for (const column of ordered) {
      const wished = column.map((key) => mean((sweep % 2 === 0 ? before : after).get(key), middles) ?? (middles.get(key) as number));
      for (const [index, middle] of spaced(column, wished).entries()) middles.set(column[index] as string, middle);
    }
  }
  return new Map([...middles].map(([key, middle]) => [key, middle - sizeOf(key).height / 2]));
}

/** The mean of pushing everything down and everything up: both keep the distances, so it does too. */
function spaced(column: string[], wished: number[]): number[] {
  const apart = column.map((key, index) => (index === 0 ? 0 : (sizeOf(column[index - 1] as string).height + sizeOf(key).height) / 2 + APART));
  const down = [...wished];
  for (let index = 1; index < down.length; index += 1) {
    down[index] = Math.max(down[index] as number, (down[index - 1] as number) + (apart[index] as number));
  }
  const up = [...wished];
  for (let index = up.length - 2; index >= 0; index -= 1) {
    up[index] = Math.min(up[index] as number, (up[index + 1] as number) - (apart[index + 1] as number));
  }
  return down.map((middle, index) => (middle + (up[index] as number)) / 2);
}

export function labelOf(edge: FlowEdge): string {
  const text = edge.actions.join(", ");
  return text.length <= LABEL_LENGTH_MAX ? text : `${text.slice(0, LABEL_LENGTH_MAX - 1)}…`;
}

function curveOf({ edge, keys }: Way, places: Map<string, Place>): Curve {
  const stops = keys.map((key) => places.get(key) as Place);
  const [first, second] = stops as [Place, Place];
  const id = edgeId(edge.source, edge.target);
  if (first === second) return loopOf(id, edge, first);
  const isBack = second.column < first.column;
  let path = "";
  let label = { x: 0, y: 0 };
  for (let index = 1; index < stops.length; index += 1) {
    const [one, other] = [stops[index - 1] as Place, stops[index] as Place];
    const from = { x: isBack ? one.x : one.x + one.width, y: middleOf(one) };
    const to = { x: isBack ? other.x + other.width : other.x, y: middleOf(other) };
    // A bend is as wide as its column: the way leads straight through.
    if (isBend(other.key)) to.x = isBack ? other.x + NODE.width : other.x;
    if (isBend(one.key)) from.x = isBack ? one.x : one.x + NODE.width;
    const half = (to.x - from.x) / 2;
    path += index === 1 ? `M${from.x} ${from.y}` : `L${from.x} ${from.y}`;
    path += `C${from.x + half} ${from.y} ${to.x - half} ${to.y} ${to.x} ${to.y}`;
    if (index === 1) label = { x: from.x + half, y: (from.y + to.y) / 2 };
  }
  return { id, edge, path, label: { ...label, text: labelOf(edge) } };
}

function loopOf(id: string, edge: FlowEdge, { x, y, width }: Place): Curve {
  const [left, right] = [x + width * 0.35, x + width * 0.65];
  const path = `M${right} ${y}C${right + 14} ${y - 26} ${left - 14} ${y - 26} ${left} ${y}`;
  return { id, edge, path, label: { x: x + width / 2, y: y - 20, text: labelOf(edge) } };
}

function middleOf(place: Place): number {
  return place.y + place.height / 2;
}
