/** All that a job has said, as text: for whoever wants the lines whole. */
import type { EventView } from "../client";

export function logText(events: EventView[]): string {
  return events.flatMap(linesIn).join("\n");
}

function linesIn({ at, payload }: EventView): string[] {
  const said = (payload ?? {}) as { lines?: unknown };
  const lines = Array.isArray(said.lines) ? said.lines : [said];
  return lines.map((line: { level?: unknown; message?: unknown }) => `${at} ${String(line.level ?? "info")} ${wordsOf(line.message)}`);
}

function wordsOf(message: unknown): string {
  return typeof message === "string" ? message : JSON.stringify(message);
}
