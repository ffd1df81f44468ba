/** What a tab knows of what is going on, and the hooks that show it. */
import { useEffect, useSyncExternalStore } from "react";
import type { EventView, KeyView, LaneResponse, RunView } from "./client";
import { LastRuns } from "./stream/last";
import { type Asked, type Connection, isActive, type LiveRun, type Patch, toLive, type Told, type Topic } from "./stream/model";
import { Queues } from "./stream/queues";
import { RecentKeys } from "./stream/recent";

const ENDED_COUNT_MAX = 2_000;
const BY_NAME = new Intl.Collator("en", { numeric: true });

type Watcher = (events: EventView[]) => void;
type EndWatcher = (ended: LiveRun[]) => void;

class Live {
  connection: Connection = "connecting";
  hasSnapshot = false;
  ahead_ms = 0;
  runs = new Map<string, LiveRun>();
  /** The newest of those that have ended since the snapshot, by their ids. */
  readonly ended = new Map<string, LiveRun>();
  lanes: LaneResponse[] = [];
  keys = new Map<string, KeyView>();
  /** Grows when a run changes its state, or begins or ends to wait, or a lane its limits. */
  moves = 0;
  /** Each grows when there is news of it. */
  readonly news: Record<Topic, number> = { questions: 0, waits: 0, flows: 0, workers: 0 };
  /** Grows when the snapshot was taken anew: what was read before it may be out of date. */
  epoch = 0;
  private readonly last = new LastRuns(() => this.keys);
  private active = new Map<string, Set<string>>();
  private readonly recent = new RecentKeys();
  private listed: string[] | null = null;
  private readonly queues = new Queues();
  private readonly listeners = new Set<() => void>();
  private readonly watchers = new Map<string, Set<Watcher>>();
  private readonly endWatchers = new Set<EndWatcher>();
  private port: MessagePort | Worker | null = null;

  connect(): void {
    if (typeof SharedWorker === "undefined") {
      this.port = new Worker(new URL("./stream/worker.ts", import.meta.url), { type: "module" });
    } else {
      const worker = new SharedWorker(new URL("./stream/worker.ts", import.meta.url), { type: "module", name: "headway" });
      this.port = worker.port;
    }
    this.port.onmessage = ({ data }: MessageEvent<Told>) => this.hear(data);
    this.ask({ kind: "hello" });
    addEventListener("pagehide", () => this.ask({ kind: "bye" }));
    // Whoever has no network need not wait for the silence to know.
    addEventListener("offline", () => this.ask({ kind: "cut" }));
    addEventListener("online", () => this.ask({ kind: "retry" }));
    addEventListener("pageshow", ({ persisted }) => persisted && this.ask({ kind: "hello" }));
  }

  ask(asked: Asked): void {
    this.port?.postMessage(asked);
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** A run that was just accepted: the stream need not tell it first. */
  put(run: RunView): void {
    const isKnown = this.runs.has(run.id) || this.ended.has(run.id);
    if (!isKnown) this.apply([toLive(run)]);
    this.tell();
  }

  putKey(saved: KeyView): void {
    this.takeKeys(new Map(this.keys).set(saved.key, saved));
    this.tell();
  }

  /** A lane as it was answered to whoever has just changed it. */
  putLane(view: LaneResponse): void {
    this.lanes = this.lanes.map((lane) => (lane.name === view.name ? view : lane));
    this.tell();
  }

  /**
   * The keys that have a row: saved ones, those with an active run, and the recent ones. By name; runs
   * without a key come after them, the newest first.
   */
  rowKeys(): string[] {
    if (this.listed === null) {
      const keys = [...new Set([...this.keys.keys(), ...this.active.keys(), ...this.recent.keys()])];
      const keyless = keys.filter((key) => this.isKeyless(key));
      const isApart = new Set(keyless);
      const named = keys.filter((key) => !isApart.has(key)).sort(byName);
      this.listed = [...named, ...keyless.sort((one, other) => this.seqOf(other) - this.seqOf(one))];
    }
    return this.listed;
  }

  /** A run without a key is its own key. */
  isKeyless(key: string): boolean {
    return this.runOf(key)?.id === key && !this.keys.has(key);
  }

  /** Whether there are older keys, which have no row. */
  get hasOlderKeys(): boolean {
    return this.recent.hasOlder;
  }

  private seqOf(key: string): number {
    return this.runOf(key)?.seq ?? 0;
  }

  /** The active run of a key that goes first, else its last one. */
  runOf(key: string): LiveRun | undefined {
    const id = this.active.get(key)?.values().next().value;
    return (id === undefined ? undefined : this.runs.get(id)) ?? this.last.of(key);
  }

  /** The last run of a key that began and is over: its figures stay, and Continue goes on from it. */
  begunOf(key: string): LiveRun | undefined {
    return this.last.begunOf(key);
  }

  laneOf(run: LiveRun): LaneResponse | undefined {
    return this.lanes.find((lane) => lane.name === run.lane);
  }

  /** From 1, among those that wait in its lane. */
  placeOf(run: LiveRun): number | null {
    return this.queues.placeOf(run);
  }

  watch(run_id: string, watcher: Watcher): () => void {
    const watchers = this.watchers.get(run_id) ?? new Set();
    this.watchers.set(run_id, watchers.add(watcher));
    this.ask({ kind: "watch", run_id });
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0) {
        this.watchers.delete(run_id);
        this.ask({ kind: "unwatch", run_id });
      }
    };
  }

  /** Calls with the runs that have just ended. */
  watchEnds(watcher: EndWatcher): () => void {
    this.endWatchers.add(watcher);
    return () => this.endWatchers.delete(watcher);
  }

  private hear(told: Told): void {
    switch (told.kind) {
      case "connection":
        this.connection = told.connection;
        break;
      case "snapshot":
        this.hasSnapshot = true;
        this.epoch += 1;
        this.moves += 1;
        this.ahead_ms = told.snapshot.ahead_ms;
        this.lanes = told.snapshot.lanes;
        this.runs = new Map();
        this.active = new Map();
        for (const kept of [this.ended, this.last, this.queues]) kept.clear();
        this.recent.take(told.snapshot.recent, told.snapshot.seq);
        this.takeKeys(byKey(told.snapshot.keys));
        for (const run of told.snapshot.last_runs) this.last.put(run);
        this.apply(told.snapshot.runs);
        break;
      case "keys":
        this.takeKeys(byKey(told.keys));
        break;
      case "patch":
        this.hearPatch(told);
        break;
    }
    this.tell();
  }

  private hearPatch(patch: Patch): void {
    this.apply(patch.runs);
    if (this.recent.advance(patch.seq)) this.listed = null;
    if (patch.lanes.length > 0) this.takeLanes(patch.lanes);
    for (const topic of patch.topics) this.news[topic] += 1;
    const byRun = Map.groupBy(patch.events, (event) => event.run_id ?? "");
    for (const [run_id, events] of byRun) {
      for (const watcher of this.watchers.get(run_id) ?? []) watcher(events);
    }
  }

  private takeKeys(keys: Map<string, KeyView>): void {
    this.keys = keys;
    this.listed = null;
  }

  private takeLanes(lanes: LaneResponse[]): void {
    const before = this.lanes;
    this.lanes = lanes;
    const isSame = lanes.length === before.length && lanes.every((lane, index) => lane.name === before[index]?.name && lane.revision === before[index]?.revision);
    if (!isSame) this.moves += 1;
  }

  private apply(runs: LiveRun[]): void {
    const ended: LiveRun[] = [];
    for (const run of runs) {
      const before = this.runs.get(run.id);
      if (before?.status !== run.status || before.is_waiting !== run.is_waiting) this.moves += 1;
      const job = run.job ?? before?.job ?? this.keys.get(run.key)?.job ?? null;
      const known = { ...run, job };
      this.queues.change(before, isActive(run.status) ? known : undefined);
      if (run.status !== "rejected" && this.recent.put(run.key, run.seq)) this.listed = null;
      const ids = this.active.get(run.key) ?? new Set();
      if (isActive(run.status)) {
        this.runs.set(run.id, known);
        if (ids.size === 0 && !this.keys.has(run.key)) this.listed = null;
        this.active.set(run.key, ids.add(run.id));
      } else {
        this.runs.delete(run.id);
        ids.delete(run.id);
        if (ids.size === 0 && this.active.delete(run.key) && !this.recent.has(run.key)) this.listed = null;
        ended.push(known);
      }
    }
    if (ended.length > 0) this.end(ended);
  }

  private end(ended: LiveRun[]): void {
    for (const run of ended) {
      this.last.put(run);
      this.ended.set(run.id, run);
      forgetOldest(this.ended, ENDED_COUNT_MAX);
    }
    for (const watcher of this.endWatchers) watcher(ended);
  }

  /** Whoever listens looks again. */
  tell(): void {
    for (const listener of this.listeners) listener();
  }
}

/** Compare names. Keys that collate as equal are compared by their characters, so that every page has the same order. */
function byName(one: string, other: string): number {
  return BY_NAME.compare(one, other) || (one < other ? -1 : 1);
}

function forgetOldest(kept: Map<string, unknown>, count_max: number): void {
  const oldest = kept.keys().next().value;
  if (kept.size > count_max && oldest !== undefined) kept.delete(oldest);
}

function byKey(keys: KeyView[]): Map<string, KeyView> {
  return new Map(keys.map((saved) => [saved.key, saved]));
}

export const live = new Live();

/** `select` must give back the same thing for as long as nothing has changed. */
export function useLive<T>(select: (live: Live) => T): T {
  return useSyncExternalStore(live.subscribe, () => select(live));
}

export function useWatch(run_id: string, watcher: Watcher): void {
  useEffect(() => live.watch(run_id, watcher), [run_id, watcher]);
}
