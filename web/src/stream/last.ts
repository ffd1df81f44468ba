/**
 * What is over: of each key the last run that began, whose figures stay to be seen (R1.12), and the
 * last that ended without beginning, which gives the row its word for as long as no other follows.
 * Both are told apart by their numbers, so that it does not matter in which order they came.
 */
import type { LiveRun } from "./model";

const KEY_COUNT_MAX = 5_000;

export class LastRuns {
  private readonly begun = new Map<string, LiveRun>();
  private readonly unbegun = new Map<string, LiveRun>();

  /** `saved`: the keys with a row of their own. Those are never forgotten. */
  constructor(private readonly saved: () => { has(key: string): boolean; size: number }) {}

  clear(): void {
    this.begun.clear();
    this.unbegun.clear();
  }

  /** One that was refused never changes the row of its key (R2.1). */
  put(run: LiveRun): void {
    if (run.status === "rejected") return;
    const runs = run.started_at === null ? this.unbegun : this.begun;
    const known = runs.get(run.key);
    if (known !== undefined && known.seq > run.seq) return;
    runs.delete(run.key); // Put in anew, so that the oldest come first.
    runs.set(run.key, run);
    this.forget(runs);
  }

  /** Whichever ended last. */
  of(key: string): LiveRun | undefined {
    const begun = this.begun.get(key);
    const unbegun = this.unbegun.get(key);
    if (begun === undefined || unbegun === undefined) return begun ?? unbegun;
    return Date.parse(unbegun.ended_at ?? "") > Date.parse(begun.ended_at ?? "") ? unbegun : begun;
  }

  /** What a Continue goes on from. */
  begunOf(key: string): LiveRun | undefined {
    return this.begun.get(key);
  }

  all(): LiveRun[] {
    return [...this.begun.values(), ...this.unbegun.values()];
  }

  private forget(runs: Map<string, LiveRun>): void {
    const saved = this.saved();
    while (runs.size > KEY_COUNT_MAX + saved.size) {
      const [key, run] = runs.entries().next().value as [string, LiveRun];
      runs.delete(key);
      if (saved.has(key)) runs.set(key, run); // There are others to forget: more than have a row.
    }
  }
}
