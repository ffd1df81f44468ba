/** A node is a button: arrows go from one to the next, Enter selects. */
import { VisuallyHidden } from "@mantine/core";
import { Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import { useEffect, useRef } from "react";
import classes from "./Canvas.module.css";
import type { NodeState } from "./Drawing";
import type { FlowNode } from "./graph";
import { KindIcon } from "./kinds";
import type { Place } from "./layout";
import { useShown } from "./shown";

/** React Flow draws a node of the graph before for a moment longer: so each knows what it is of. */
export type CanvasNodeType = Node<{ place: Place; node: FlowNode | undefined }, "step" | "end">;

const STATE_WORDS: Record<NodeState, string> = {
  ok: "done",
  error: "failed",
  canceled: "cancelled",
  running: "running",
  waiting: "waiting",
};

export function StepNode({ data }: NodeProps<CanvasNodeType>) {
  const { graph, lit, selected, reachable, awaited, onSelect, onFocus, onKeyDown } = useShown();
  const button = useRef<HTMLButtonElement>(null);
  const place = data.place;
  const node = data.node as FlowNode;
  const known = lit?.states.get(node.key);
  const isStart = node.key === graph.start;
  const isAwaited = node.key === awaited;
  useEffect(() => {
    if (isAwaited) button.current?.focus({ preventScroll: true });
  }, [isAwaited]);
  const words = [isStart && "the start", known && STATE_WORDS[known.state], known && known.count > 1 && `${known.count} times`].filter(Boolean).join(", ");
  return (
    <>
      <Ends />
      <button
        ref={button}
        type="button"
        className={classes.node}
        data-state={known?.state ?? "none"}
        data-unlit={Boolean(lit?.taken) && !known}
        data-start={isStart}
        data-testid="node"
        aria-pressed={node.key === selected}
        title={node.key}
        tabIndex={node.key === reachable ? 0 : -1}
        onClick={() => onSelect(node.key === selected ? null : node.key)}
        onFocus={(event) => onFocus(event, place)}
        onKeyDown={(event) => onKeyDown(event, place)}
      >
        <span className={classes.icon}>
          <KindIcon kind={node.kind} />
        </span>
        <span className={classes.words}>
          <span className={classes.name} dir="auto">
            {node.key}
          </span>
          <span className={classes.kind} dir="auto">
            {node.kind.replace("_", " ")}
            {node.about && <span> {node.about}</span>}
          </span>
        </span>
        {words && <VisuallyHidden>, {words}</VisuallyHidden>}
        {known && known.count > 1 && (
          <span className={classes.mark} aria-hidden="true">
            ×{known.count}
          </span>
        )}
      </button>
    </>
  );
}

export function EndNode() {
  return (
    <>
      <Ends />
      <span className={classes.end} />
    </>
  );
}

/** Where the edges hold on to. */
function Ends() {
  return (
    <>
      <Handle className={classes.handle} type="target" position={Position.Left} isConnectable={false} />
      <Handle className={classes.handle} type="source" position={Position.Right} isConnectable={false} />
    </>
  );
}
