/** A flow as a picture. What draws it is fetched when the first graph is shown, and not before. */
import { lazy, Suspense } from "react";
import classes from "./Drawing.module.css";
import type { FlowGraph } from "./graph";

export type NodeState = "ok" | "error" | "canceled" | "running" | "waiting";

export interface Lit {
  states: Map<string, { state: NodeState; count: number }>;
  /** The edges that were taken; null: it is not about a way through the flow. */
  taken: Set<string> | null;
}

export interface DrawingProps {
  graph: FlowGraph;
  label: string;
  lit?: Lit | undefined;
  selected: string | null;
  onSelect: (key: string | null) => void;
}

const Canvas = lazy(() => import("./Canvas"));

export function Drawing(props: DrawingProps) {
  return (
    <Suspense fallback={<Coming />}>
      <Canvas {...props} />
    </Suspense>
  );
}

export function Coming() {
  return (
    <div className={classes.coming} role="status">
      Drawing the graph…
    </div>
  );
}
