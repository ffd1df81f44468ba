/** Instants and lengths of time, in words. */
import { useSyncExternalStore } from "react";
import { live } from "./live";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

let now_ms = Date.now();
const listeners = new Set<() => void>();
let ticking: ReturnType<typeof setInterval> | null = null;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  ticking ??= setInterval(() => {
    now_ms = Date.now();
    for (const one of listeners) one();
  }, SECOND);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0 && ticking !== null) {
      clearInterval(ticking);
      ticking = null;
    }
  };
}

/** The server's clock, once a second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now_ms) + live.ahead_ms;
}

export function length(ms: number): string {
  const whole = Math.max(0, ms);
  if (whole < 10 * SECOND) return `${(whole / SECOND).toFixed(1)} s`;
  if (whole < MINUTE) return `${Math.floor(whole / SECOND)} s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} min ${pad((whole % MINUTE) / SECOND)} s`;
  if (whole < DAY) return `${Math.floor(whole / HOUR)} h ${pad((whole % HOUR) / MINUTE)} min`;
  return `${Math.floor(whole / DAY)} d ${pad((whole % DAY) / HOUR)} h`;
}

function pad(value: number): string {
  return String(Math.floor(value)).padStart(2, "0");
}

/** How long ago; the last minute in one word, so that lists do not flicker. */
export function ago(at: string, now: number): string {
  const ms = now - Date.parse(at);
  if (ms < MINUTE) return "just now";
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ago`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h ago`;
  if (ms < 30 * DAY) return `${Math.floor(ms / DAY)} d ago`;
  return new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

export function moment(at: string): string {
  return new Date(at).toLocaleString("en-GB", {
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
}

export function clock(at: string): string {
  return new Date(at).toLocaleTimeString("en-GB", { hour12: false });
}
