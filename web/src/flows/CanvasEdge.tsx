import { BaseEdge, type Edge, type EdgeProps } from "@xyflow/react";
import classes from "./Canvas.module.css";
import type { Way } from "./layout";

export type CanvasEdgeType = Edge<{ way: Way; isTaken: boolean; isUnlit: boolean }, "way">;

export function WayEdge({ data, markerEnd }: EdgeProps<CanvasEdgeType>) {
  const { way, isTaken, isUnlit } = data as NonNullable<CanvasEdgeType["data"]>;
  return (
    <g className={classes.edge} data-taken={isTaken} data-unlit={isUnlit} data-testid="edge">
      <BaseEdge
        path={way.path}
        interactionWidth={0}
        {...(markerEnd === undefined ? {} : { markerEnd })}
        {...(way.label && { label: way.label.text, labelX: way.label.x, labelY: way.label.y, labelBgPadding: [4, 2], labelBgBorderRadius: 4 })}
      />
    </g>
  );
}
