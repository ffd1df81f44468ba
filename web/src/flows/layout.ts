/** Where everything of a graph is drawn: columns from left to right, laid out by dagre, with curves between them. */
import { type EdgeLabel, Graph, type GraphLabel, layout, type NodeLabel } from "@dagrejs/dagre";
import { curveMonotoneX, line } from "d3-shape";
import { DEFAULT, type FlowEdge, type FlowGraph, walked } from "./graph";

export interface Place {
  /** Ours, for a key may be anything. */
  id: string;
  /** Null: it is where an edge ends the flow, drawn as a dot. */
  key: string | null;
  column: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Way {
  id: string;
  edge: FlowEdge;
  source: string;
  target: string;
  path: string;
  /** Null: nothing has to be said. */
  label: { x: number; y: number; text: string } | null;
}

export interface Layout {
  places: Place[];
  ways: Way[];
  width: number;
  height: number;
}

type Sheet = Graph<GraphLabel, NodeLabel, EdgeLabel>;

interface Point {
  x: number;
  y: number;
}

const NODE = { width: 152, height: 50 };
const END = { width: 14, height: 14 };
const SPACE = { rankdir: "LR", acyclicer: "greedy", nodesep: 28, edgesep: 18, ranksep: 42, marginx: 24, marginy: 24 } as const;
const LOOP_HEIGHT = 30;
/** A way leaves and arrives level. */
const STUB = 8;
/** A way that leads back begins and ends beside the arrows of those that lead on. */
const BESIDE = 14;
/** Larger graphs get the columns that they have anyway, and no search for the fewest crossings: that would take minutes. */
const SMALL_COUNT_MAX = 150;
const COLUMNS_GIVEN = { ranker: "none" as "longest-path" };
/** An edge bends in every column that it crosses, and each bend takes time. What goes beyond is drawn straight, the longest first. */
const LENGTH_SUM_MAX = 4_000;
const LABEL_FONT = "11.5px system-ui, sans-serif";
const LABEL_HEIGHT = 18;
const LABEL_PADDING = 6;
const LABEL_LENGTH_MAX = 24;

export function layoutOf(graph: FlowGraph): Layout {
  const columns = columnsOf(graph);
  const ids = new Map([...columns.keys()].map((key, index) => [key, `n${index}`]));
  const links = graph.edges.map((edge, index) => linkOf(edge, `e${index}`, ids, columns));
  const sheet = laidOut(ids, columns, links, isLarge(graph));
  const ends = links.filter(({ edge }) => edge.target === "").map(({ target }): [string, null] => [target, null]);
  const keys = new Map<string, string | null>([...[...ids].map(([key, id]): [string, string] => [id, key]), ...ends]);
  const places = new Map([...keys].map(([id, key]) => [id, placeOf(id, key, sheet.node(id))]));
  const middles = new Set([...ids.values()].map((id) => sheet.node(id).x as number));
  const { width = 0, height = 0 } = sheet.graph();
  return { places: [...places.values()], ways: links.map((link) => wayOf(link, sheet, places, middles)), width, height };
}

/** Whether laying it out takes so long that it is not done while somebody waits for the page. */
export function isLarge(graph: FlowGraph): boolean {
  return graph.nodes.size > SMALL_COUNT_MAX || graph.edges.length > 2 * SMALL_COUNT_MAX;
}

interface Link {
  edge: FlowEdge;
  id: string;
  source: string;
  target: string;
  text: string | null;
  /** Over how many columns it leads; less than nothing when it leads back. */
  length: number;
}

function linkOf(edge: FlowEdge, id: string, ids: Map<string, string>, columns: Map<string, number>): Link {
  const source = ids.get(edge.source) as string;
  const from = columns.get(edge.source) as number;
  const length = edge.target === "" ? 1 : (columns.get(edge.target) as number) - from;
  return { edge, id, source, target: ids.get(edge.target) ?? `${source}-end`, text: textOf(edge), length };
}

/** The nodes as they are walked, each with the length of the longest way to it that does not go in a circle. */
function columnsOf(graph: FlowGraph): Map<string, number> {
  const entering = Map.groupBy(graph.edges, ({ target }) => target);
  const columns = new Map<string, number>();
  for (const key of walked(graph)) {
    const before = (entering.get(key) ?? []).map(({ source }) => columns.get(source) ?? -1);
    columns.set(key, Math.max(-1, ...before) + 1);
  }
  return columns;
}

/** Edges that lead back are turned round, so that nothing goes in a circle. */
function laidOut(ids: Map<string, string>, columns: Map<string, number>, links: Link[], isQuick: boolean): Sheet {
  const sheet: Sheet = new Graph({ multigraph: true });
  sheet.setGraph({ ...SPACE, ...(isQuick && COLUMNS_GIVEN) });
  // Between two columns is one for the labels.
  const looped = new Set(links.filter(isLoop).map(({ source }) => source));
  for (const [key, id] of ids) {
    sheet.setNode(id, { width: NODE.width, height: NODE.height + (looped.has(id) ? LOOP_HEIGHT * 2 : 0), rank: (columns.get(key) as number) * 2 });
  }
  for (const { edge, target } of links) {
    if (edge.target === "") sheet.setNode(target, { ...END, rank: ((columns.get(edge.source) as number) + 1) * 2 });
  }
  let cost = 0;
  for (const { id, source, target, text, length } of links.toSorted((one, other) => Math.abs(one.length) - Math.abs(other.length))) {
    if (source === target) continue; // It has its room above the node.
    cost += Math.abs(length);
    if (cost > LENGTH_SUM_MAX) break;
    const [v, w] = length < 0 ? [target, source] : [source, target];
    sheet.setEdge({ v, w, name: id }, text === null ? {} : { width: widthOf(text), height: LABEL_HEIGHT, labelpos: "c" });
  }
  layout(sheet, isQuick ? { customOrder: orderAsWalked } : {});
  return sheet;
}

/** Within its column a node comes when the first way from the left comes to it. */
function orderAsWalked(sheet: Sheet): void {
  const rankOf = (id: string) => sheet.node(id).rank as number;
  const counts = new Map<number, number>();
  const seen = new Set<string>();
  const waiting = sheet.nodes().toSorted((one, other) => rankOf(other) - rankOf(one));
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (seen.has(id)) continue;
    seen.add(id);
    const order = counts.get(rankOf(id)) ?? 0;
    counts.set(rankOf(id), order + 1);
    sheet.node(id).order = order;
    waiting.push(...(sheet.successors(id) ?? []).toReversed());
  }
}

function wayOf(link: Link, sheet: Sheet, places: Map<string, Place>, middles: Set<number>): Way {
  const { edge, id, source, target, text, length } = link;
  const ends = [places.get(source), places.get(target)] as [Place, Place];
  if (isLoop(link)) return { id, edge, source, target, ...loopOf(ends[0], text) };
  const [v, w] = length < 0 ? [target, source] : [source, target];
  const drawn: EdgeLabel = sheet.edge({ v, w, name: id }) ?? between(...ends);
  const stops = length < 0 ? (drawn.points as Point[]).toReversed() : (drawn.points as Point[]);
  const label = text === null ? null : { x: drawn.x as number, y: drawn.y as number, text };
  return { id, edge, source, target, path: curveOf(stops, drawn, ends, middles), label };
}

function isLoop({ source, target }: Link): boolean {
  return source === target;
}

/** Of a node to itself: over its head. */
function loopOf({ x, y, width }: Place, text: string | null): Pick<Way, "path" | "label"> {
  const [left, right, top] = [x + width * 0.3, x + width * 0.7, y - LOOP_HEIGHT * 1.1];
  const path = `M${right} ${y}C${right + 16} ${top} ${left - 16} ${top} ${left} ${y}`;
  return { path, label: text === null ? null : { x: x + width / 2, y: y - LOOP_HEIGHT * 0.8, text } };
}

/** An edge that was not laid out leads straight over whatever is there. */
function between(source: Place, target: Place): EdgeLabel {
  const [from, to] = [middleOf(source), middleOf(target)];
  return { points: [], x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
}

function middleOf({ x, y, width, height }: Place): Point {
  return { x: x + width / 2, y: y + height / 2 };
}

function placeOf(id: string, key: string | null, { x = 0, y = 0, rank = 0 }: NodeLabel): Place {
  const { width, height } = key === null ? END : NODE;
  return { id, key, column: rank, x: x - width / 2, y: y - height / 2, width, height };
}

/** From the side of one to the side of the other, level through every column and through its label. */
function curveOf(stops: Point[], { x: labelX, width: labelWidth = 0 }: EdgeLabel, [source, target]: [Place, Place], middles: Set<number>): string {
  const passed = stops.slice(1, -1);
  const step = target.x >= source.x ? 1 : -1;
  const from = sideOf(source, step, step, passed.at(0));
  const to = sideOf(target, -step, step, passed.at(-1));
  const points = [from, { ...from, x: from.x + STUB * step }];
  for (const { x, y } of passed) {
    const width = middles.has(x) ? NODE.width : x === labelX ? labelWidth : 0;
    if (width > 0) points.push({ x: x - (width / 2) * step, y }, { x: x + (width / 2) * step, y });
    else points.push({ x, y });
  }
  points.push({ ...to, x: to.x - STUB * step }, to);
  const draw = line<Point>(({ x }) => x, ({ y }) => y).curve(curveMonotoneX).digits(1);
  return draw(points) ?? "";
}

function sideOf(place: Place, side: number, step: number, toward: Point | undefined): Point {
  const { y } = middleOf(place);
  const aside = step > 0 ? 0 : toward !== undefined && toward.y < y ? -BESIDE : BESIDE;
  return { x: side > 0 ? place.x + place.width : place.x, y: y + aside };
}

/** That an edge is the usual way on need not be said. */
function textOf({ actions }: FlowEdge): string | null {
  if (actions.length === 1 && actions[0] === DEFAULT) return null;
  const text = [...actions.join(", ")];
  return text.length <= LABEL_LENGTH_MAX ? text.join("") : `${text.slice(0, LABEL_LENGTH_MAX - 1).join("")}…`;
}

function widthOf(text: string): number {
  const pen = new OffscreenCanvas(1, 1).getContext("2d") as OffscreenCanvasRenderingContext2D;
  pen.font = LABEL_FONT;
  return Math.ceil(pen.measureText(text).width) + LABEL_PADDING * 2;
}
