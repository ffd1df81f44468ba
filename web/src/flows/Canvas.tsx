/** The drawing itself: laid out by dagre, shown and moved about by React Flow. */
import { useElementSize } from "@mantine/hooks";
import { Background, Controls, type EdgeTypes, MarkerType, MiniMap, type NodeTypes, Position, ReactFlow, ReactFlowProvider } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { useCallback, useId, useMemo } from "react";
import classes from "./Canvas.module.css";
import { type CanvasEdgeType, WayEdge } from "./CanvasEdge";
import { type CanvasNodeType, EndNode, StepNode } from "./CanvasNode";
import { Coming, type DrawingProps, type Lit } from "./Drawing";
import { edgeId, type FlowGraph } from "./graph";
import type { Layout, Place } from "./layout";
import { ShownContext } from "./shown";
import { useLayout } from "./useLayout";
import { heightOf, type Room, viewOf } from "./view";
import { useWalk } from "./walk";

const NODE_TYPES: NodeTypes = { step: StepNode, end: EndNode };
const EDGE_TYPES: EdgeTypes = { way: WayEdge };
const ZOOM_MIN = 0.1;
const ZOOM_MAX = 1.5;
/** As far as one can move beyond the outermost nodes. */
const BEYOND = 300;
/** Of larger graphs, only what is in sight is in the page. */
const WHOLE_COUNT_MAX = 200;
const OVERVIEW_COUNT_MIN = 24;
/** It is looked at, and not changed; the wheel is the page's own. */
const STILL = {
  nodesDraggable: false,
  nodesConnectable: false,
  nodesFocusable: false,
  edgesFocusable: false,
  elementsSelectable: false,
  disableKeyboardA11y: true,
  zoomOnScroll: false,
  zoomOnDoubleClick: false,
  preventScrolling: false,
  deleteKeyCode: null,
  selectionKeyCode: null,
  multiSelectionKeyCode: null,
  panActivationKeyCode: null,
};
const TONES = {
  none: "var(--hw-arrow)",
  ok: "var(--hw-done)",
  error: "var(--hw-failed)",
  canceled: "var(--hw-cancelled)",
  running: "var(--hw-running)",
  waiting: "var(--hw-waiting)",
};
const HEAD = { width: 14, height: 14, color: "var(--hw-arrow)" };
/** Its line is thicker, and the head grows with that. */
const TAKEN_HEAD = { width: 10, height: 10, color: "var(--hw-running)" };
const OVERVIEW_SIZE = { width: 168, height: 112 };
const FIT = { padding: 0.05, maxZoom: 1 };
const WORDS = {
  "controls.ariaLabel": "View",
  "controls.zoomIn.ariaLabel": "Larger",
  "controls.zoomOut.ariaLabel": "Smaller",
  "controls.fitView.ariaLabel": "Show all",
  "minimap.ariaLabel": "Overview",
};

export default function Canvas(props: DrawingProps) {
  const layout = useLayout(props.graph);
  return layout === null ? <Coming /> : <Frame {...props} layout={layout} />;
}

function Frame({ layout, ...props }: DrawingProps & { layout: Layout }) {
  const { ref, width } = useElementSize<HTMLDivElement>();
  const height = heightOf(layout, width, hasOverview(layout));
  return (
    <div ref={ref} className={classes.frame} style={{ height }}>
      {width > 0 && (
        <ReactFlowProvider>
          <Sheet {...props} layout={layout} room={{ width, height }} />
        </ReactFlowProvider>
      )}
    </div>
  );
}

function Sheet({ graph, label, lit, selected, onSelect, layout, room }: DrawingProps & { layout: Layout; room: Room }) {
  const id = useId();
  const places = useMemo(() => layout.places.filter(({ key }) => key !== null), [layout]);
  const nodes = useMemo(() => layout.places.map((place) => nodeOf(place, graph)), [layout, graph]);
  const edges = useMemo(() => edgesOf(layout, lit), [layout, lit]);
  const isWhole = places.length <= WHOLE_COUNT_MAX;
  const first = useMemo(() => viewOf(layout, room, beginning(places, graph, lit)), [layout]);
  const { onMoveEnd, ...walk } = useWalk({ places, room, isWhole, first, wanted: selected ?? graph.start });
  const toneOf = useCallback(({ data }: CanvasNodeType) => TONES[lit?.states.get(data.place.key ?? "")?.state ?? "none"], [lit]);
  return (
    <ShownContext value={{ graph, lit, selected, onSelect, ...walk }}>
      <ReactFlow
        id={id}
        aria-label={label}
        data-testid="graph"
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        defaultViewport={first}
        onMoveEnd={onMoveEnd}
        minZoom={ZOOM_MIN}
        maxZoom={ZOOM_MAX}
        translateExtent={[
          [-BEYOND, -BEYOND],
          [layout.width + BEYOND, layout.height + BEYOND],
        ]}
        onlyRenderVisibleElements={!isWhole}
        ariaLabelConfig={WORDS}
        {...STILL}
      >
        <Background gap={20} size={1.2} color="var(--hw-line)" />
        <Controls position="bottom-left" orientation="horizontal" showInteractive={false} fitViewOptions={FIT} />
        {hasOverview(layout) && <MiniMap className={classes.overview} style={OVERVIEW_SIZE} pannable zoomable nodeColor={toneOf} nodeStrokeWidth={0} />}
      </ReactFlow>
    </ShownContext>
  );
}

function hasOverview({ places }: Layout): boolean {
  return places.length >= OVERVIEW_COUNT_MIN;
}

function nodeOf(place: Place, graph: FlowGraph): CanvasNodeType {
  const { id, key, x, y, width, height } = place;
  const size = { width, height };
  // Told and not measured: so even what was never in the page has its edges.
  const middle = { y: height / 2, width: 1, height: 1 };
  const handles = [
    { type: "target", position: Position.Left, x: 0, ...middle },
    { type: "source", position: Position.Right, x: width, ...middle },
  ] as const;
  return { id, type: key === null ? "end" : "step", position: { x, y }, ...size, measured: size, handles: [...handles], data: { place, node: graph.nodes.get(key ?? "") } };
}

/** What was taken comes last, so that it lies above the rest. */
function edgesOf(layout: Layout, lit: Lit | undefined): CanvasEdgeType[] {
  const edges = layout.ways.map((way): CanvasEdgeType => {
    const { source, target, actions } = way.edge;
    const isTaken = lit?.taken?.has(edgeId(source, target)) ?? false;
    return {
      id: way.id,
      type: "way",
      source: way.source,
      target: way.target,
      ariaLabel: `${actions.join(", ")}: from ${source} to ${target || "the end"}`,
      markerEnd: { type: MarkerType.ArrowClosed, ...(isTaken ? TAKEN_HEAD : HEAD) },
      data: { way, isTaken, isUnlit: Boolean(lit?.taken) && !isTaken },
    };
  });
  return edges.sort((one, other) => Number(one.data?.isTaken) - Number(other.data?.isTaken));
}

/** Where the task is now, else the start. */
function beginning(places: Place[], graph: FlowGraph, lit: Lit | undefined): Place | undefined {
  const now = places.find(({ key }) => ["running", "waiting"].includes(lit?.states.get(key ?? "")?.state ?? ""));
  return now ?? places.find(({ key }) => key === graph.start) ?? places[0];
}
