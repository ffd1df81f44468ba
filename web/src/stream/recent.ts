/**
 * The keys that have a row without being saved: those of the newest runs, up to a limit. The rule is
 * the server's (`recent` in `/api/state`): a page that has followed the stream and one that was just
 * opened list the same keys.
 */
import type { RecentView } from "../client";

export class RecentKeys {
  /** The number of the newest run of each key that was not refused. */
  private readonly seqs = new Map<string, number>();
  private rule: RecentView = { keys: [], has_older: false, key_count_max: 500, event_count_max: 200_000, event_step: 20_000 };
  private after_seq = 0;

  take(view: RecentView, seq: number): void {
    this.rule = view;
    this.seqs.clear();
    this.after_seq = 0;
    for (const one of view.keys) this.seqs.set(one.key, one.seq);
    this.advance(seq);
  }

  /** Add a run that was not refused, in any order. Return true if the list has changed. */
  put(key: string, seq: number): boolean {
    const known = this.seqs.get(key);
    if (seq <= this.after_seq || (known !== undefined && known >= seq)) return false;
    this.seqs.set(key, seq);
    if (this.seqs.size > this.rule.key_count_max) {
      this.seqs.delete(this.oldest());
      this.rule = { ...this.rule, has_older: true };
    }
    return known === undefined;
  }

  /** Remove keys whose runs are too old when the stream has reached `seq`. Return true if the list has changed. */
  advance(seq: number): boolean {
    const { event_count_max, event_step } = this.rule;
    const after_seq = Math.max(0, seq - (seq % event_step) - event_count_max);
    if (after_seq <= this.after_seq) return false;
    this.after_seq = after_seq;
    const before = this.seqs.size;
    for (const [key, newest] of this.seqs) if (newest <= after_seq) this.seqs.delete(key);
    if (this.seqs.size < before) this.rule = { ...this.rule, has_older: true };
    return this.seqs.size < before;
  }

  keys(): Iterable<string> {
    return this.seqs.keys();
  }

  has(key: string): boolean {
    return this.seqs.has(key);
  }

  get hasOlder(): boolean {
    return this.rule.has_older;
  }

  view(): RecentView {
    return { ...this.rule, keys: Array.from(this.seqs, ([key, seq]) => ({ key, seq })) };
  }

  private oldest(): string {
    let found = "";
    let lowest = Number.POSITIVE_INFINITY;
    for (const [key, seq] of this.seqs) if (seq < lowest) [found, lowest] = [key, seq];
    return found;
  }
}
