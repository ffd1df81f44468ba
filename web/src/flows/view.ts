/** Which part of a layout is seen, and where the keys lead from there. */
import type { Viewport } from "@xyflow/react";
import type { Layout, Place } from "./layout";

export interface Room {
  width: number;
  height: number;
}

/** Smaller than this nobody can read it. */
const ZOOM_READABLE = 0.55;
/** What does not fit begins at this, and is moved about. */
const ZOOM_PART = 0.85;
const HEIGHT_MAX = 560;
const OVERVIEW_HEIGHT_MIN = 330;
/** The buttons stand below the nodes. */
const FOOT_HEIGHT = 36;

function zoomOf(layout: Layout, width: number): number {
  const fitting = Math.min(1, width / layout.width);
  return fitting >= ZOOM_READABLE ? fitting : ZOOM_PART;
}

/** An overview needs room of its own, however low the graph is. */
export function heightOf(layout: Layout, width: number, hasOverview: boolean): number {
  const height = layout.height * zoomOf(layout, width) + FOOT_HEIGHT;
  return Math.min(HEIGHT_MAX, Math.max(height, hasOverview ? OVERVIEW_HEIGHT_MIN : 0));
}

/** All of it if that can be read, else the part around a place. */
export function viewOf(layout: Layout, room: Room, at: Place | undefined): Viewport {
  const zoom = zoomOf(layout, room.width);
  const middle = at ? { x: at.x + at.width / 2, y: at.y + at.height / 2 } : { x: 0, y: 0 };
  return {
    x: startOf(room.width, layout.width * zoom, middle.x * zoom),
    y: startOf(room.height - FOOT_HEIGHT, layout.height * zoom, middle.y * zoom),
    zoom,
  };
}

function startOf(room: number, size: number, middle: number): number {
  if (size <= room) return (room - size) / 2;
  return Math.min(0, Math.max(room - size, room / 2 - middle));
}

/** Whether all of it is in sight. */
export function isSeen({ x, y, width, height }: Place, view: Viewport, room: Room): boolean {
  const [left, top] = [x * view.zoom + view.x, y * view.zoom + view.y];
  return left >= 0 && top >= 0 && left + width * view.zoom <= room.width && top + height * view.zoom <= room.height;
}

/** Where an arrow key leads: within the column, or to the nearest in a column beside. */
export function nextOf(key: string, from: Place, places: Place[]): Place | null {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[key];
  if (step === undefined) return null;
  const isAcross = key === "ArrowLeft" || key === "ArrowRight";
  const wanted = places.filter((place) => (isAcross ? (place.column - from.column) * step > 0 : place.column === from.column && (place.y - from.y) * step > 0));
  wanted.sort((one, other) => Math.abs(one.column - from.column) - Math.abs(other.column - from.column) || Math.abs(one.y - from.y) - Math.abs(other.y - from.y));
  return wanted[0] ?? null;
}
