import { useEffect, useMemo, useState } from "react";
import type { FlowGraph } from "./graph";
import { isLarge, type Layout, layoutOf } from "./layout";

/** Null: it is being laid out. */
export function useLayout(graph: FlowGraph): Layout | null {
  const small = useMemo(() => (isLarge(graph) ? null : layoutOf(graph)), [graph]);
  const [large, setLarge] = useState<{ graph: FlowGraph; layout: Layout } | null>(null);
  useEffect(() => {
    if (small) return;
    const worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<Layout>) => setLarge({ graph, layout: data });
    worker.postMessage(graph);
    return () => worker.terminate();
  }, [graph, small]);
  return small ?? (large?.graph === graph ? large.layout : null);
}
