/** How the nodes of a drawing are shown: whatever may change while it stays where it is. */
import { createContext, type FocusEvent, type KeyboardEvent, use } from "react";
import type { Lit } from "./Drawing";
import type { FlowGraph } from "./graph";
import type { Place } from "./layout";

export interface Shown {
  graph: FlowGraph;
  lit: Lit | undefined;
  selected: string | null;
  /** The node that the Tab key leads to; the arrow keys lead from there to the others. */
  reachable: string | null;
  /** The node that is to take the focus as soon as it is there. */
  awaited: string | null;
  onSelect: (key: string | null) => void;
  onFocus: (event: FocusEvent, place: Place) => void;
  onKeyDown: (event: KeyboardEvent, from: Place) => void;
}

export const ShownContext = createContext<Shown | null>(null);

export function useShown(): Shown {
  const shown = use(ShownContext);
  if (shown === null) throw new Error("a node is drawn by a canvas only");
  return shown;
}
