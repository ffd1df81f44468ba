/** What the definition says of one node; of a subflow, its graph as well. */
import { useState } from "react";
import { Json } from "../parts/Json";
import { Drawing } from "./Drawing";
import type { FlowNode } from "./graph";
import classes from "./NodePanel.module.css";

export function NodePanel({ node }: { node: FlowNode }) {
  const { subflow: _, ...plain } = node.value;
  return (
    <section className={classes.panel} aria-label={`Node ${node.key}`} data-testid="node-panel">
      <h2 dir="auto">{node.key}</h2>
      {node.inside && <Inside node={node} />}
      <Json value={plain} label={`Definition of ${node.key}`} />
    </section>
  );
}

function Inside({ node }: { node: FlowNode }) {
  const [selected, setSelected] = useState<string | null>(null);
  if (node.inside === null) return null;
  const inner = selected === null ? undefined : node.inside.nodes.get(selected);
  return (
    <>
      <Drawing graph={node.inside} label={`Subflow ${node.key}`} selected={selected} onSelect={setSelected} />
      {inner && <NodePanel node={inner} />}
    </>
  );
}
