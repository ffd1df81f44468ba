/**
 * How many were queued in each lane, from the opening of the page on. A sample is the most that were
 * in its span of time; when there are too many, two become one, so that all of the time is always
 * shown. The clock says which span it is, not the ticks: those of a tab that nobody sees come late.
 */
import { live, useLive } from "../live";

const SAMPLE_COUNT_MAX = 240;
const SPAN_MS = 1_000;

/** Null: the server could not be reached, so nobody knows. */
export type Count = number | null;

interface Depth {
  /** The most in each span, the oldest first. */
  counts: Count[];
  span_ms: number;
}

let begun_ms: number | null = null;
let span_ms = SPAN_MS;
let spanCount = 0;
/** Of each lane as many as spans. */
const counts = new Map<string, Count[]>();
/** What was last heard; null: the line is cut. */
let known: Map<string, number> | null = null;
let depths: ReadonlyMap<string, Depth> = new Map();

/** Bring the samples up to now: what was last heard held until then. */
function advance(): void {
  if (begun_ms === null) return;
  const past_ms = performance.now() - begun_ms;
  while (past_ms / span_ms >= SAMPLE_COUNT_MAX) {
    for (const [name, before] of counts) counts.set(name, halved(before));
    spanCount = Math.ceil(spanCount / 2);
    span_ms *= 2;
  }
  for (const wanted = Math.floor(past_ms / span_ms) + 1; spanCount < wanted; spanCount += 1) {
    for (const [name, before] of counts) before.push(known === null ? null : (known.get(name) ?? 0));
  }
}

function see(): void {
  if (!live.hasSnapshot) return;
  begun_ms ??= performance.now();
  advance();
  if (live.connection !== "live") {
    known = null;
    return;
  }
  known = new Map(live.lanes.map((lane) => [lane.name, lane.queued_count]));
  for (const [name, count] of known) {
    const samples = counts.get(name) ?? new Array<Count>(spanCount).fill(0);
    samples[spanCount - 1] = Math.max(samples[spanCount - 1] ?? 0, count);
    counts.set(name, samples);
  }
}

function show(): void {
  see();
  depths = new Map([...counts].map(([name, samples]) => [name, { counts: [...samples], span_ms }]));
  live.tell();
}

function halved(samples: Count[]): Count[] {
  return samples.filter((_, index) => index % 2 === 0).map((count, index) => larger(count, samples[index * 2 + 1] ?? null));
}

function larger(one: Count, other: Count): Count {
  return one === null || other === null ? (one ?? other) : Math.max(one, other);
}

/** Called once, when the page opens. */
export function watchDepths(): void {
  live.subscribe(see);
  setInterval(show, SPAN_MS);
}

export function useDepth(lane: string): Depth | undefined {
  return useLive(() => depths.get(lane));
}
