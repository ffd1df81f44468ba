/**
 * What is going on, as the stream tells it: folded in one worker for all tabs, and sent to them in
 * small batches. A run is kept without its documents; who shows those asks for them.
 */
import type { EventView, KeyView, LaneResponse, RecentView, RunView } from "../client";

export type Status = RunView["status"];
export type RowState = RunView["state"];

export interface LiveRun {
  id: string;
  key: string;
  lane: string;
  /** Null until somebody has asked: events do not tell it. */
  job: string | null;
  status: Status;
  state: RowState;
  is_waiting: boolean;
  is_behind: boolean;
  seq: number;
  ready_seq: number | null;
  attempt: number;
  queued_at: string;
  started_at: string | null;
  ended_at: string | null;
  progress: unknown;
  error: unknown;
  rate: Rate | null;
}

interface Rate {
  name: string;
  per_s: number;
}

export interface Snapshot {
  seq: number;
  lanes: LaneResponse[];
  keys: KeyView[];
  runs: LiveRun[];
  /** Those that are over: of each key the last one, and the last that began. */
  last_runs: LiveRun[];
  recent: RecentView;
  /** How far the server's clock is ahead of this machine's. */
  ahead_ms: number;
}

export type Connection = "connecting" | "live" | "lost" | "signed_out";

/** From the worker to a tab. */
export type Told =
  | { kind: "connection"; connection: Connection }
  | { kind: "snapshot"; snapshot: Snapshot }
  | { kind: "keys"; keys: KeyView[] }
  | Patch;

/**
 * Of what there is news that the stream does not carry whole: questions to people, what runs wait
 * for, flows, workers.
 */
export type Topic = "questions" | "waits" | "flows" | "workers";

export interface Patch {
  kind: "patch";
  seq: number;
  runs: LiveRun[];
  lanes: LaneResponse[];
  topics: Topic[];
  /** Those of the runs that the tab watches, in order. */
  events: EventView[];
}

/** From a tab to the worker. */
export type Asked =
  | { kind: "hello" }
  | { kind: "bye" }
  | { kind: "retry" }
  | { kind: "cut" }
  | { kind: "watch"; run_id: string }
  | { kind: "unwatch"; run_id: string };

const ACTIVE: ReadonlySet<Status> = new Set(["queued", "running", "cancelling"]);

export function isActive(status: Status): boolean {
  return ACTIVE.has(status);
}

export function toLive(run: RunView): LiveRun {
  return {
    id: run.id,
    key: run.key,
    lane: run.lane,
    job: run.job,
    status: run.status,
    state: run.state,
    is_waiting: run.is_waiting,
    is_behind: run.is_behind,
    seq: run.seq,
    ready_seq: run.ready_seq,
    attempt: run.attempt,
    queued_at: run.queued_at,
    started_at: run.started_at,
    ended_at: run.ended_at,
    progress: run.progress ?? null,
    error: run.error ?? null,
    rate: statedRate(run.progress),
  };
}

/** The rate that a job itself tells: `rate`, or a figure whose name ends so. */
export function statedRate(progress: unknown): Rate | null {
  if (typeof progress !== "object" || progress === null) return null;
  for (const [name, value] of Object.entries(progress)) {
    const isRate = name === "rate" || name.endsWith("_per_s") || name.endsWith("_rate");
    if (isRate && typeof value === "number") return { name, per_s: value };
  }
  return null;
}
