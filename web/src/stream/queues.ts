/** Who is queued in which lane, in order. Thousands may be: a place is found without looking at all. */
import type { LiveRun } from "./model";

export class Queues {
  /** Of each lane the ranks, the first to start first. */
  private readonly lanes = new Map<string, number[]>();

  clear(): void {
    this.lanes.clear();
  }

  /** A run has become another; undefined: it was not there, or is not any more. */
  change(before: LiveRun | undefined, after: LiveRun | undefined): void {
    const left = rankOf(before);
    const entered = rankOf(after);
    if (left === entered && before?.lane === after?.lane) return;
    if (before && left !== null) this.leave(before.lane, left);
    if (after && entered !== null) this.enter(after.lane, entered);
  }

  /** From 1; null: it is not queued, or behind another run of its key. */
  placeOf(run: LiveRun): number | null {
    const rank = rankOf(run);
    const ranks = this.lanes.get(run.lane);
    if (rank === null || ranks === undefined) return null;
    const index = firstFrom(ranks, rank);
    return ranks[index] === rank ? index + 1 : null;
  }

  private enter(lane: string, rank: number): void {
    const ranks = this.lanes.get(lane) ?? [];
    this.lanes.set(lane, ranks);
    // Whoever comes last mostly stands last.
    if (rank > (ranks.at(-1) ?? 0)) ranks.push(rank);
    else ranks.splice(firstFrom(ranks, rank), 0, rank);
  }

  private leave(lane: string, rank: number): void {
    const ranks = this.lanes.get(lane) ?? [];
    const index = firstFrom(ranks, rank);
    if (ranks[index] === rank) ranks.splice(index, 1);
  }
}

function rankOf(run: LiveRun | undefined): number | null {
  if (run === undefined || run.status !== "queued" || run.is_behind) return null;
  return run.ready_seq ?? run.seq;
}

/** Where the first stands that is not before `rank`. */
function firstFrom(ranks: number[], rank: number): number {
  let [low, high] = [0, ranks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranks[middle] as number) < rank) low = middle + 1;
    else high = middle;
  }
  return low;
}
