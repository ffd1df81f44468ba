/** What a tab knows of what is going on, and the hooks that show it. */
import { useEffect, useSyncExternalStore } from "react";
import type { EventView, KeyView, LaneView, RunView } from "./client";
import { type Asked, type Connection, isActive, type LiveRun, type Patch, toLive, type Told } from "./stream/model";
import { Queues } from "./stream/queues";

const LAST_COUNT_MAX = 5_000;
const BY_NAME = new Intl.Collator("en", { numeric: true });

type Watcher = (events: EventView[]) => void;

class Live {
  connection: Connection = "connecting";
  hasSnapshot = false;
  ahead_ms = 0;
  runs = new Map<string, LiveRun>();
  last = new Map<string, LiveRun>();
  lanes: LaneView[] = [];
  keys = new Map<string, KeyView>();
  /** Grows with every change of a run's state: who lists runs looks again. */
  moves = 0;
  /** Grows when somebody was asked or has answered. */
  questions = 0;
  /** Grows when the snapshot was taken anew: what was read before it may be out of date. */
  epoch = 0;
  private active = new Map<string, Set<string>>();
  private listed: string[] | null = null;
  private readonly queues = new Queues();
  private readonly listeners = new Set<() => void>();
  private readonly watchers = new Map<string, Set<Watcher>>();
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
    const isKnown = this.runs.has(run.id) || this.last.get(run.key)?.id === run.id;
    if (!isKnown) this.apply([toLive(run)]);
    this.tell();
  }

  putKey(saved: KeyView): void {
    this.keys = new Map(this.keys).set(saved.key, saved);
    this.listed = null;
    this.tell();
  }

  /** A lane as it was answered to whoever has just changed it. */
  putLane(view: LaneView): void {
    this.lanes = this.lanes.map((lane) => (lane.name === view.name ? view : lane));
    this.tell();
  }

  /** The keys that have a row: saved ones, and those with an active run. */
  rowKeys(): string[] {
    if (this.listed === null) {
      const keys = new Set(this.keys.keys());
      for (const [key, ids] of this.active) if (!ids.has(key)) keys.add(key);
      this.listed = [...keys].sort(BY_NAME.compare);
    }
    return this.listed;
  }

  /** The active run of a key that goes first, else its last one. */
  runOf(key: string): LiveRun | undefined {
    const id = this.active.get(key)?.values().next().value;
    return (id === undefined ? undefined : this.runs.get(id)) ?? this.last.get(key);
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

  private hear(told: Told): void {
    switch (told.kind) {
      case "connection":
        this.connection = told.connection;
        break;
      case "snapshot":
        this.hasSnapshot = true;
        this.epoch += 1;
        this.questions += 1;
        this.moves += 1;
        this.ahead_ms = told.snapshot.ahead_ms;
        this.lanes = told.snapshot.lanes;
        this.keys = byKey(told.snapshot.keys);
        this.runs = new Map();
        this.active = new Map();
        this.queues.clear();
        this.last = new Map(told.snapshot.last_runs.map((run) => [run.key, run]));
        this.listed = null;
        this.apply(told.snapshot.runs);
        break;
      case "keys":
        this.keys = byKey(told.keys);
        this.listed = null;
        break;
      case "patch":
        this.hearPatch(told);
        break;
    }
    this.tell();
  }

  private hearPatch(patch: Patch): void {
    this.apply(patch.runs);
    if (patch.lanes.length > 0) this.lanes = patch.lanes;
    if (patch.questions) this.questions += 1;
    const byRun = Map.groupBy(patch.events, (event) => event.run_id ?? "");
    for (const [run_id, events] of byRun) {
      for (const watcher of this.watchers.get(run_id) ?? []) watcher(events);
    }
  }

  private apply(runs: LiveRun[]): void {
    for (const run of runs) {
      const before = this.runs.get(run.id);
      if (before?.status !== run.status) this.moves += 1;
      const job = run.job ?? before?.job ?? this.keys.get(run.key)?.job ?? null;
      const known = { ...run, job };
      this.queues.change(before, isActive(run.status) ? known : undefined);
      const ids = this.active.get(run.key) ?? new Set();
      if (isActive(run.status)) {
        this.runs.set(run.id, known);
        if (ids.size === 0 && !this.keys.has(run.key)) this.listed = null;
        this.active.set(run.key, ids.add(run.id));
      } else {
        this.runs.delete(run.id);
        ids.delete(run.id);
        if (ids.size === 0) this.active.delete(run.key);
        if (run.status !== "rejected") this.keepLast(known);
      }
    }
  }

  private keepLast(run: LiveRun): void {
    this.last.delete(run.key); // Put in anew, so that the oldest come first.
    this.last.set(run.key, run);
    const oldest = this.last.keys().next().value;
    if (this.last.size > LAST_COUNT_MAX && oldest !== undefined) this.last.delete(oldest);
  }

  /** Whoever listens looks again. */
  tell(): void {
    for (const listener of this.listeners) listener();
  }
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
