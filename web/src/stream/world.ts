/** The state that the events are folded into. One event, one change; nothing here asks anybody. */
import type { EventView, HeadwayEventView, KeyView, LaneChangedEvent, LaneResponse, StateChangedEvent, StateView } from "../client";
import { LastRuns } from "./last";
import { RecentKeys } from "./recent";
import { isActive, type LiveRun, type Patch, type Snapshot, statedRate, toLive, type Topic } from "./model";

const RATE_WINDOW_MS = 2_000;
/** A figure that has not moved for so long says nothing of how fast it moves. */
const RATE_AGE_MS_MAX = 15_000;

interface Sample {
  at_ms: number;
  name: string;
  value: number;
}

export class World {
  seq = 0;
  /** The id of the event after which the stream of the snapshot begins. */
  eventId = "0";
  epoch = 0;
  readonly runs = new Map<string, LiveRun>();
  private readonly last = new LastRuns(() => this.savedKeys);
  private readonly recent = new RecentKeys();
  lanes = new Map<string, LaneResponse>();
  private savedKeys = new Map<string, KeyView>();
  /** Of active runs, in the order of their arrival. */
  private readonly idsByKey = new Map<string, Set<string>>();
  private readonly samples = new Map<string, Sample>();
  /** When a run that has a rate last told its figures. */
  private readonly progressed = new Map<string, number>();
  private changed = new Set<string>();
  private ended: LiveRun[] = [];
  private haveLanesChanged = false;
  private topics = new Set<Topic>();
  /** Saved rows are to be read: an event tells that one has changed, and not how. */
  haveKeysChanged = false;
  /** A run has made a lane by using it: its limits are to be read. */
  hasNewLane = false;

  take(state: StateView, now_ms: number): void {
    this.seq = state.seq;
    this.eventId = state.event_id;
    this.epoch = state.epoch;
    for (const kept of [this.runs, this.last, this.samples, this.progressed, this.idsByKey]) kept.clear();
    this.keys = state.keys;
    this.recent.take(state.recent, state.seq);
    for (const run of state.runs.map(toLive)) {
      this.runs.set(run.id, run);
      this.enter(run);
      if (run.rate) this.progressed.set(run.id, now_ms);
    }
    for (const run of state.last_runs) {
      if (!isActive(run.status)) this.last.put(toLive(run));
    }
    this.lanes = new Map(state.lanes.map((lane) => [lane.name, lane]));
    this.changed = new Set();
    this.ended = [];
    this.topics = new Set();
    this.haveLanesChanged = this.haveKeysChanged = this.hasNewLane = false;
  }

  get keys(): KeyView[] {
    return [...this.savedKeys.values()];
  }

  set keys(saved: KeyView[]) {
    this.savedKeys = new Map(saved.map((one) => [one.key, one]));
  }

  /** Lanes that were read just now. What the stream has told of the others may be newer. */
  takeNewLanes(lanes: LaneResponse[]): void {
    for (const lane of lanes) if (!this.lanes.has(lane.name)) this.lanes.set(lane.name, lane);
    this.haveLanesChanged = true;
  }

  snapshot(ahead_ms: number): Snapshot {
    return {
      seq: this.seq,
      lanes: [...this.lanes.values()],
      keys: this.keys,
      runs: [...this.runs.values()],
      last_runs: this.last.all(),
      recent: this.recent.view(),
      ahead_ms,
    };
  }

  /** False: events are missing between this one and those before, so the snapshot must be taken. */
  apply(event: EventView): boolean {
    if (event.seq <= this.seq) return true;
    if (event.seq !== this.seq + 1) return false;
    this.seq = event.seq;
    this.recent.advance(event.seq);
    // Jobs cannot use headway's types, so the type alone decides the payload. Other types are ignored.
    const known = event as HeadwayEventView;
    if (known.run_id !== null) this.applyToRun(known, known.run_id);
    else if (known.type === "lane_changed") this.changeLane(known);
    else if (known.type === "key_changed") this.haveKeysChanged = true;
    else if (known.type === "flow_changed") this.topics.add("flows");
    else if (known.type === "worker_changed") this.topics.add("workers");
    return true;
  }

  private applyToRun(event: HeadwayEventView, id: string): void {
    const run = this.runs.get(id);
    switch (event.type) {
      case "run_state_changed":
        this.move(event, id, run);
        break;
      case "run_progress":
        if (run) this.progress(event, run);
        break;
      case "run_waiting":
      case "run_parked":
      case "run_taken_over":
        if (run) this.wait(run);
        break;
      case "run_retried":
        if (run) this.wait({ ...run, attempt: run.attempt + 1 });
        break;
      case "run_woken":
        this.topics.add("waits");
        break;
      case "run_resumed":
        if (run) this.put({ ...run, is_waiting: false });
        this.topics.add("waits");
        break;
      case "permission_request":
      case "permission_result":
        this.topics.add("questions");
        break;
    }
  }

  private progress(event: EventView, run: LiveRun): void {
    this.put({ ...run, progress: event.payload, rate: this.rateOf(event, run.id) });
    this.progressed.set(run.id, Date.parse(event.at));
  }

  /** Whoever waits makes no headway, however fast it was before. */
  private wait(run: LiveRun): void {
    this.samples.delete(run.id);
    this.put({ ...run, is_waiting: true, rate: null });
    this.topics.add("waits");
  }

  /** Takes the rate from runs that have told nothing for a while. */
  forgetRates(now_ms: number): void {
    for (const [id, at_ms] of this.progressed) {
      if (now_ms - at_ms < RATE_AGE_MS_MAX) continue;
      this.progressed.delete(id);
      this.samples.delete(id);
      const run = this.runs.get(id);
      if (run?.rate) this.put({ ...run, rate: null });
    }
  }

  private move(event: StateChangedEvent, id: string, run: LiveRun | undefined): void {
    const { to, error } = event.payload;
    const before = run ?? this.newRun(event, id);
    const after: LiveRun = { ...before, status: to, state: event.state };
    if (to === "running") {
      after.started_at = before.started_at ?? event.at;
      after.is_waiting = false;
      after.ready_seq = null;
    }
    if (to !== "rejected") this.recent.put(after.key, after.seq);
    this.haveLanesChanged = true;
    if (isActive(to)) {
      this.put(after);
      this.hasNewLane ||= !this.lanes.has(after.lane);
      return;
    }
    if (before.is_waiting) this.topics.add("waits"); // For nothing any more.
    this.end({ ...after, ended_at: event.at, error: error ?? null, is_waiting: false });
  }

  private newRun(event: EventView, id: string): LiveRun {
    const key = event.key ?? id;
    const isBehind = this.firstOf(key) !== undefined;
    return {
      id,
      key,
      lane: event.lane ?? "",
      job: null,
      status: "queued",
      state: "Queued",
      is_waiting: false,
      is_behind: isBehind,
      seq: event.seq,
      ready_seq: isBehind ? null : event.seq,
      attempt: 1,
      queued_at: event.at,
      started_at: null,
      ended_at: null,
      progress: null,
      error: null,
      rate: null,
    };
  }

  private end(run: LiveRun): void {
    this.runs.delete(run.id);
    this.leave(run);
    this.samples.delete(run.id);
    this.progressed.delete(run.id);
    this.changed.delete(run.id);
    this.ended.push(run);
    this.last.put(run);
    const next = run.is_behind ? undefined : this.firstOf(run.key);
    if (next?.is_behind) this.put({ ...next, is_behind: false, ready_seq: this.seq });
    // Its question, if it has asked one, is over with it.
    this.topics.add("questions");
  }

  /** The run of the key that goes first, of those that are active. */
  private firstOf(key: string): LiveRun | undefined {
    const id = this.idsByKey.get(key)?.values().next().value;
    return id === undefined ? undefined : this.runs.get(id);
  }

  private put(run: LiveRun): void {
    this.runs.set(run.id, run);
    this.enter(run);
    this.changed.add(run.id);
    this.haveLanesChanged = true;
  }

  private enter(run: LiveRun): void {
    const ids = this.idsByKey.get(run.key);
    if (ids) ids.add(run.id);
    else this.idsByKey.set(run.key, new Set([run.id]));
  }

  private leave(run: LiveRun): void {
    const ids = this.idsByKey.get(run.key);
    ids?.delete(run.id);
    if (ids?.size === 0) this.idsByKey.delete(run.key);
  }

  /** What has changed since it was asked for the last time; null: nothing. */
  changes(): Omit<Patch, "kind" | "events"> | null {
    const runs = [...this.ended];
    for (const id of this.changed) {
      const run = this.runs.get(id);
      if (run) runs.push(run);
    }
    const topics = [...this.topics];
    if (runs.length === 0 && !this.haveLanesChanged && topics.length === 0) return null;
    const lanes = this.haveLanesChanged ? this.countedLanes() : [];
    this.changed = new Set();
    this.ended = [];
    this.topics = new Set();
    this.haveLanesChanged = false;
    return { seq: this.seq, runs, lanes, topics };
  }

  private countedLanes(): LaneResponse[] {
    const held = new Map<string, number>();
    const queued = new Map<string, number>();
    const waiting = new Map<string, number>();
    for (const run of this.runs.values()) {
      if (run.status === "queued") queued.set(run.lane, (queued.get(run.lane) ?? 0) + 1);
      else if (!run.is_waiting) held.set(run.lane, (held.get(run.lane) ?? 0) + 1);
      else if (run.status === "running") waiting.set(run.lane, (waiting.get(run.lane) ?? 0) + 1);
    }
    for (const name of new Set([...held.keys(), ...queued.keys(), ...waiting.keys(), ...this.lanes.keys()])) {
      const lane = this.lanes.get(name);
      if (!lane) continue; // A new one is about to be read.
      const counts = {
        held_count: held.get(name) ?? 0,
        queued_count: queued.get(name) ?? 0,
        waiting_count: waiting.get(name) ?? 0,
      };
      this.lanes.set(name, { ...lane, ...counts });
    }
    return [...this.lanes.values()];
  }

  private rateOf(event: EventView, id: string): LiveRun["rate"] {
    const stated = statedRate(event.payload);
    if (stated) return stated;
    const counter = firstNumber(event.payload);
    if (!counter) return null;
    const [name, value] = counter;
    const at_ms = Date.parse(event.at);
    const sample = this.samples.get(id);
    if (!sample || sample.name !== name || value < sample.value) {
      this.samples.set(id, { at_ms, name, value });
      return null;
    }
    const known = this.runs.get(id)?.rate ?? null;
    if (at_ms - sample.at_ms < RATE_WINDOW_MS) return known;
    this.samples.set(id, { at_ms, name, value });
    return { name, per_s: ((value - sample.value) * 1_000) / (at_ms - sample.at_ms) };
  }

  private changeLane(event: LaneChangedEvent): void {
    const { max_concurrent, max_queued, is_paused } = event.payload;
    const name = event.lane ?? "";
    const known = this.lanes.get(name);
    const revision = (known?.revision ?? 0) + 1;
    const counts = { held_count: 0, queued_count: 0, waiting_count: 0, ...known };
    this.lanes.set(name, { ...counts, name, max_concurrent, max_queued, paused: is_paused, revision });
    this.haveLanesChanged = true;
  }
}

function firstNumber(progress: unknown): [string, number] | null {
  if (typeof progress !== "object" || progress === null) return null;
  for (const [name, value] of Object.entries(progress)) {
    if (typeof value === "number") return [name, value];
  }
  return null;
}
