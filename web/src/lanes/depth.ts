/**
 * How many waited in each lane, from the opening of the page on. A sample is the most that waited in
 * its span of time; when there are too many, two become one, so that all of the time is always shown.
 */
import { live, useLive } from "../live";

export const SAMPLE_COUNT_MAX = 240;
const SPAN_MS = 1_000;

export interface Depth {
  /** The most in each span, the oldest first. */
  counts: number[];
  span_ms: number;
}

let span_ms = SPAN_MS;
let sinceSpan_ms = 0;
let seen = new Map<string, number>();
let depths: ReadonlyMap<string, Depth> = new Map();

function see(): void {
  for (const lane of live.lanes) seen.set(lane.name, Math.max(seen.get(lane.name) ?? 0, lane.queued_count));
}

function sample(): void {
  if (!live.hasSnapshot) return;
  see();
  sinceSpan_ms += SPAN_MS;
  if (sinceSpan_ms < span_ms) return;
  sinceSpan_ms = 0;
  const length = Math.max(0, ...[...depths.values()].map(({ counts }) => counts.length));
  const next = new Map<string, Depth>();
  for (const { name } of live.lanes) {
    const before = depths.get(name)?.counts ?? new Array<number>(length).fill(0);
    next.set(name, { counts: [...before, seen.get(name) ?? 0], span_ms });
  }
  if (length + 1 >= SAMPLE_COUNT_MAX) {
    span_ms *= 2;
    for (const [name, { counts }] of next) next.set(name, { counts: halved(counts), span_ms });
  }
  depths = next;
  seen = new Map();
  live.tell();
}

function halved(counts: number[]): number[] {
  return counts.filter((_, index) => index % 2 === 0).map((count, index) => Math.max(count, counts[index * 2 + 1] ?? 0));
}

/** Called once, when the page opens. */
export function watchDepths(): void {
  live.subscribe(see);
  setInterval(sample, SPAN_MS);
}

export function useDepth(lane: string): Depth | undefined {
  return useLive(() => depths.get(lane));
}
