/** A flow as a picture. Nodes are buttons: arrows go from one to the next, Enter selects. */
import { ActionIcon, Tooltip, VisuallyHidden } from "@mantine/core";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { MinusIcon, PlusIcon } from "../parts/icons";
import type { FlowGraph, FlowNode } from "./graph";
import classes from "./Drawing.module.css";
import { isEnd } from "./layers";
import { layoutOf, type Place } from "./layout";

export type NodeState = "ok" | "error" | "canceled" | "running" | "waiting";

export interface Lit {
  states: Map<string, { state: NodeState; count: number }>;
  /** The edges that were taken. */
  taken: Set<string>;
}

const STATE_WORDS: Record<NodeState, string> = {
  ok: "done",
  error: "failed",
  canceled: "cancelled",
  running: "at work",
  waiting: "waiting",
};
const ZOOMS = [0.4, 0.55, 0.75, 1, 1.25] as const;
const ZOOM_LEAST = 0.75;

interface Props {
  graph: FlowGraph;
  label: string;
  lit?: Lit | undefined;
  selected: string | null;
  onSelect: (key: string | null) => void;
}

export function Drawing({ graph, label, lit, selected, onSelect }: Props) {
  const layout = useMemo(() => layoutOf(graph), [graph]);
  const box = useRef<HTMLDivElement>(null);
  const [zoom, setZoom] = useState(1);
  const [focused, setFocused] = useState<string | null>(null);
  // It begins as large as it fits, and never so small that nobody could read it.
  useEffect(() => {
    const room = box.current?.clientWidth ?? layout.width;
    setZoom(Math.min(1, Math.max(ZOOM_LEAST, room / layout.width)));
  }, [layout]);
  const places = [...layout.places.values()].filter((place) => graph.nodes.has(place.key));
  const reachable = focused !== null && graph.nodes.has(focused) ? focused : (selected ?? graph.start);
  function move(event: KeyboardEvent, from: Place) {
    const next = nextOf(event.key, from, places);
    if (next === null) return;
    event.preventDefault();
    box.current?.querySelector<HTMLElement>(`[data-index="${places.indexOf(next)}"]`)?.focus();
  }
  return (
    <div className={classes.frame}>
      <div className={classes.box} ref={box} role="group" aria-label={label} data-testid="graph">
        <div className={classes.sheet} style={{ width: layout.width * zoom, height: layout.height * zoom }}>
          <div className={classes.drawing} style={{ width: layout.width, height: layout.height, transform: `scale(${zoom})` }}>
            <Edges layout={layout} lit={lit} />
            {places.map((place, index) => {
              const node = graph.nodes.get(place.key) as FlowNode;
              return (
                <NodeButton
                  key={place.key}
                  index={index}
                  node={node}
                  place={place}
                  lit={lit}
                  isStart={place.key === graph.start}
                  isSelected={place.key === selected}
                  isReachable={place.key === reachable || (index === 0 && !graph.nodes.has(reachable))}
                  onClick={() => onSelect(place.key === selected ? null : place.key)}
                  onFocus={() => setFocused(place.key)}
                  onKeyDown={(event) => move(event, place)}
                />
              );
            })}
          </div>
        </div>
      </div>
      <Zoom zoom={zoom} onZoom={setZoom} />
    </div>
  );
}

function Edges({ layout, lit }: { layout: ReturnType<typeof layoutOf>; lit: Lit | undefined }) {
  // What was taken is drawn last, so that it lies above the rest.
  const curves = lit ? layout.curves.toSorted((one, other) => Number(lit.taken.has(one.id)) - Number(lit.taken.has(other.id))) : layout.curves;
  return (
    <svg className={classes.edges} width={layout.width} height={layout.height} aria-hidden="true">
      <defs>
        {["plain", "taken"].map((name) => (
          <marker key={name} id={`arrow-${name}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
            <path className={classes.head} data-taken={name === "taken"} d="M0.5 0.5L7.5 4L0.5 7.5z" />
          </marker>
        ))}
      </defs>
      {[...layout.places.values()].filter(({ key }) => isEnd(key)).map(({ key, x, y, width }) => (
        <circle key={key} className={classes.end} cx={x + width / 2} cy={y + width / 2} r={width / 2 - 1} />
      ))}
      {curves.map(({ id, path, label, edge }) => {
        const isTaken = lit?.taken.has(id) ?? false;
        const isPlain = edge.actions.length === 1 && edge.actions[0] === "default";
        return (
          <g key={id} className={classes.edge} data-taken={isTaken} data-unlit={lit !== undefined && !isTaken}>
            <path d={path} markerEnd={`url(#arrow-${isTaken ? "taken" : "plain"})`} />
            {!isPlain && (
              <text x={label.x} y={label.y}>
                {label.text}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

interface NodeProps {
  index: number;
  node: FlowNode;
  place: Place;
  lit: Lit | undefined;
  isStart: boolean;
  isSelected: boolean;
  isReachable: boolean;
  onClick: () => void;
  onFocus: () => void;
  onKeyDown: (event: KeyboardEvent) => void;
}

function NodeButton({ index, node, place, lit, isStart, isSelected, isReachable, ...heard }: NodeProps) {
  const known = lit?.states.get(node.key);
  const words = [isStart && "the start", known && STATE_WORDS[known.state]].filter(Boolean).join(", ");
  return (
    <button
      type="button"
      className={classes.node}
      style={{ left: place.x, top: place.y, width: place.width, height: place.height }}
      data-index={index}
      data-state={known?.state ?? "none"}
      data-unlit={lit !== undefined && !known}
      data-start={isStart}
      data-testid="node"
      aria-pressed={isSelected}
      title={node.key}
      tabIndex={isReachable ? 0 : -1}
      {...heard}
    >
      <span className={classes.name} dir="auto">
        {node.key}
      </span>
      <span className={classes.kind} dir="auto">
        {node.kind.replace("_", " ")}
        {node.about && <span> {node.about}</span>}
      </span>
      {words && <VisuallyHidden>, {words}</VisuallyHidden>}
      {known && (
        <span className={classes.mark} aria-hidden="true">
          {known.count > 1 ? `×${known.count}` : ""}
        </span>
      )}
    </button>
  );
}

function Zoom({ zoom, onZoom }: { zoom: number; onZoom: (zoom: number) => void }) {
  const smaller = ZOOMS.findLast((one) => one < zoom - 0.01);
  const larger = ZOOMS.find((one) => one > zoom + 0.01);
  return (
    <div className={classes.zoom}>
      <Tooltip label="Smaller">
        <ActionIcon size="sm" variant="default" aria-label="Smaller" disabled={smaller === undefined} onClick={() => onZoom(smaller ?? zoom)}>
          <MinusIcon size={12} />
        </ActionIcon>
      </Tooltip>
      <Tooltip label="Larger">
        <ActionIcon size="sm" variant="default" aria-label="Larger" disabled={larger === undefined} onClick={() => onZoom(larger ?? zoom)}>
          <PlusIcon size={12} />
        </ActionIcon>
      </Tooltip>
    </div>
  );
}

/** Where an arrow key leads: within the column, or to the nearest in a column beside. */
function nextOf(key: string, from: Place, places: Place[]): Place | null {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[key];
  if (step === undefined) return null;
  const isAcross = key === "ArrowLeft" || key === "ArrowRight";
  const wanted = places.filter((place) => (isAcross ? (place.column - from.column) * step > 0 : place.column === from.column && (place.y - from.y) * step > 0));
  wanted.sort((one, other) => Math.abs(one.column - from.column) - Math.abs(other.column - from.column) || Math.abs(one.y - from.y) - Math.abs(other.y - from.y));
  return wanted[0] ?? null;
}
