/**
 * Snapshot, then subscribe; after a gap or a cut the snapshot again. What is shown is either true
 * or marked as out of date: it is never guessed.
 */
import type { EventView, KeyView, StateView } from "../client";
import type { Connection } from "./model";
import { readEvents } from "./sse";
import type { World } from "./world";

const SILENCE_MS_MAX = 40_000;
const RETRY_MS_MIN = 300;
const RETRY_MS_MAX = 5_000;
const KEY_PAGE_COUNT = 1_000;

export interface Listener {
  onConnection(connection: Connection): void;
  onSnapshot(ahead_ms: number): void;
  onEvent(event: EventView): void;
}

export class Follower {
  private wake: (() => void) | null = null;

  constructor(
    private readonly address: string,
    private readonly world: World,
    private readonly listener: Listener,
  ) {}

  /** Somebody has signed in, or does not want to wait for the next attempt. */
  retry(): void {
    this.wake?.();
  }

  async run(): Promise<never> {
    let delay_ms = RETRY_MS_MIN;
    for (;;) {
      // For as long as any tab is open.
      try {
        const isSignedIn = await this.takeSnapshot();
        if (isSignedIn) {
          delay_ms = RETRY_MS_MIN;
          const isGap = await this.subscribe();
          if (isGap) continue;
        } else {
          this.listener.onConnection("signed_out");
          await this.pause(null);
          continue;
        }
      } catch (error) {
        if (!(error instanceof TypeError || error instanceof DOMException || error instanceof Cut)) throw error;
      }
      this.listener.onConnection("lost");
      await this.pause(delay_ms);
      delay_ms = Math.min(delay_ms * 2, RETRY_MS_MAX);
    }
  }

  private async takeSnapshot(): Promise<boolean> {
    const answer = await fetch(`${this.address}/api/state`);
    if (answer.status === 401) return false;
    if (!answer.ok) throw new Cut();
    const told_ms = Date.parse(answer.headers.get("date") ?? "");
    const ahead_ms = Number.isNaN(told_ms) ? 0 : told_ms - Date.now();
    this.world.take((await answer.json()) as StateView);
    this.listener.onSnapshot(Math.abs(ahead_ms) < 2_000 ? 0 : ahead_ms);
    return true;
  }

  /** True: events are missing. It ends in no other way but by a cut. */
  private async subscribe(): Promise<boolean> {
    const aborter = new AbortController();
    const hush = () => aborter.abort();
    let silence = setTimeout(hush, SILENCE_MS_MAX);
    try {
      const answer = await fetch(`${this.address}/api/events?after=${this.world.seq}`, {
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
        if (sent.event === "resync") return true;
        const event = JSON.parse(sent.data) as EventView;
        if (!this.world.apply(event)) return true;
        this.listener.onEvent(event);
      }
      throw new Cut();
    } finally {
      clearTimeout(silence);
      aborter.abort();
    }
  }

  /** The saved rows: an event tells that one has changed, and not how. */
  async readKeys(): Promise<KeyView[]> {
    const keys: KeyView[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const after: string = cursor && `&cursor=${encodeURIComponent(cursor)}`;
      const answer = await fetch(`${this.address}/api/keys?limit=${KEY_PAGE_COUNT}${after}`);
      if (!answer.ok) throw new Cut();
      const page = (await answer.json()) as { keys: KeyView[]; cursor: string | null };
      keys.push(...page.keys);
      cursor = page.cursor;
    }
    return keys;
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
