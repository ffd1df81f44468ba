/**
 * Snapshot, then subscribe; after a gap or a cut the snapshot again. What is shown is either true
 * or marked as out of date: it is never guessed.
 */
import type { EventView, KeyView, LaneResponse, StateView } from "../client";
import type { Connection } from "./model";
import { readEvents } from "./sse";
import type { World } from "./world";

/** The server sends a ping at least every 30 s, the maximum of its `sse_ping_interval_s`. */
const SILENCE_MS_MAX = 45_000;
const ANSWER_MS_MAX = 30_000;
const RETRY_MS_MIN = 300;
const RETRY_MS_MAX = 5_000;
/** Retention removes runs without an event. A new snapshot no longer has them. */
const REFRESH_MS = 600_000;
const KEY_PAGE_COUNT = 1_000;

interface Listener {
  onConnection(connection: Connection): void;
  onSnapshot(ahead_ms: number): void;
  onEvent(event: EventView): void;
}

/** Why nothing is followed any more: events are missing, or nobody is signed in. */
type Outcome = "gap" | "signed_out";

export class Follower {
  private wake: (() => void) | null = null;
  private aborter = new AbortController();
  private isAskedAgain = false;
  /** For as long as no snapshot tells otherwise: whoever types a token is not interrupted. */
  private isSignedOut = false;
  private isRefreshing = false;
  private delay_ms = RETRY_MS_MIN;

  constructor(
    private readonly address: string,
    private readonly world: World,
    private readonly listener: Listener,
  ) {}

  /** Somebody has signed in, or is signed out, or does not want to wait for the next attempt. */
  retry(): void {
    this.isAskedAgain = true;
    this.aborter.abort();
    this.wake?.();
  }

  /** There is no network: what is known may be out of date from now on. */
  cut(): void {
    this.aborter.abort();
  }

  async run(): Promise<never> {
    for (;;) {
      // For as long as any tab is open, and whatever goes wrong: nobody would begin anew.
      this.isAskedAgain = this.isRefreshing = false;
      this.aborter = new AbortController();
      const outcome = await this.follow().catch(() => (this.isAskedAgain ? "gap" : "lost"));
      if (this.isRefreshing) continue;
      if (outcome === "gap") {
        if (!this.isSignedOut) this.listener.onConnection("connecting");
        continue;
      }
      this.listener.onConnection(outcome);
      await this.pause(outcome === "lost" ? this.delay_ms : null);
      this.delay_ms = Math.min(this.delay_ms * 2, RETRY_MS_MAX);
    }
  }

  private async follow(): Promise<Outcome> {
    this.isSignedOut = !(await this.takeSnapshot());
    if (this.isSignedOut) return "signed_out";
    this.delay_ms = RETRY_MS_MIN;
    await this.subscribe();
    return "gap";
  }

  private async takeSnapshot(): Promise<boolean> {
    const answer = await this.ask("/api/state");
    if (answer.status === 401) return false;
    if (!answer.ok) throw new Cut();
    const told_ms = Date.parse(answer.headers.get("date") ?? "");
    const difference_ms = Number.isNaN(told_ms) ? 0 : told_ms - Date.now();
    const ahead_ms = Math.abs(difference_ms) < 2_000 ? 0 : difference_ms;
    this.world.take((await answer.json()) as StateView, Date.now() + ahead_ms);
    this.listener.onSnapshot(ahead_ms);
    return true;
  }

  /** Ends when events are missing, or by a cut. */
  private async subscribe(): Promise<void> {
    const { aborter } = this;
    const hush = () => aborter.abort();
    let silence = setTimeout(hush, SILENCE_MS_MAX);
    const refreshing = setTimeout(() => {
      this.isRefreshing = true;
      aborter.abort();
    }, REFRESH_MS);
    try {
      const answer = await fetch(`${this.address}/api/events?after=${this.world.eventId}&epoch=${this.world.epoch}`, {
        headers: { accept: "text/event-stream" },
        signal: aborter.signal,
      });
      if (!answer.ok || answer.body === null) throw new Cut();
      this.listener.onConnection("live");
      for await (const sent of readEvents(answer.body)) {
        clearTimeout(silence);
        silence = setTimeout(hush, SILENCE_MS_MAX);
        if (sent === "ping") continue;
        if (sent.event === "server_closing") throw new Cut();
        if (sent.event === "resync") return;
        const event = JSON.parse(sent.data) as EventView;
        if (!this.world.apply(event)) return;
        this.listener.onEvent(event);
      }
      throw new Cut();
    } finally {
      clearTimeout(silence);
      clearTimeout(refreshing);
      aborter.abort();
    }
  }

  /** The saved rows: an event tells that one has changed, and not how. */
  async readKeys(): Promise<KeyView[]> {
    const keys: KeyView[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const after: string = cursor && `&cursor=${encodeURIComponent(cursor)}`;
      const page = await this.read<{ keys: KeyView[]; cursor: string | null }>(`/api/keys?limit=${KEY_PAGE_COUNT}${after}`);
      keys.push(...page.keys);
      cursor = page.cursor;
    }
    return keys;
  }

  async readLanes(): Promise<LaneResponse[]> {
    return (await this.read<{ lanes: LaneResponse[] }>("/api/lanes")).lanes;
  }

  private async read<T>(path: string): Promise<T> {
    const answer = await this.ask(path);
    if (!answer.ok) throw new Cut();
    return (await answer.json()) as T;
  }

  private ask(path: string): Promise<Response> {
    return fetch(`${this.address}${path}`, { signal: AbortSignal.any([this.aborter.signal, AbortSignal.timeout(ANSWER_MS_MAX)]) });
  }

  private async pause(delay_ms: number | null): Promise<void> {
    await new Promise<void>((resolve) => {
      this.wake = resolve;
      if (delay_ms !== null) setTimeout(resolve, delay_ms);
    });
    this.wake = null;
  }
}

/** The server is not there, or has ended the stream. */
class Cut extends Error {}
