/** Looking again when the stream tells that there is something to see, and not too often. */
import { useCallback, useEffect, useRef } from "react";
import { queries } from "./api";
import { live, useLive, useWatch } from "./live";
import type { Topic } from "./stream/model";

const RUN_AGAIN_MS = 400;
const MOVES_AGAIN_MS = 1_000;
const TOPIC_AGAIN_MS: Record<Topic, number> = { questions: 300, waits: 1_000, flows: 300, workers: 300 };

/** Calls `look` soon after something happened to a run, and after every new snapshot. */
export function useNews(run_id: string, look: () => void): () => void {
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const latest = useRef(look);
  latest.current = look;
  const epoch = useLive((live) => live.epoch);
  const again = useCallback(() => {
    timer.current ??= setTimeout(() => {
      timer.current = null;
      latest.current();
    }, RUN_AGAIN_MS);
  }, []);
  useWatch(run_id, again);
  useEffect(again, [again, epoch, run_id]);
  return again;
}

/** Calls `look` soon after what `count` gives has grown. `count` must not change. */
function useGrowth(count: () => number, delay_ms: number, look: () => void): void {
  const latest = useRef(look);
  latest.current = look;
  useEffect(() => {
    let seen = count();
    let timer: ReturnType<typeof setTimeout> | null = null;
    const stop = live.subscribe(() => {
      if (count() === seen || timer !== null) return;
      timer = setTimeout(() => {
        timer = null;
        seen = count();
        latest.current();
      }, delay_ms);
    });
    return () => {
      stop();
      if (timer !== null) clearTimeout(timer);
    };
  }, [count, delay_ms]);
}

const moves = () => live.moves;
const epochs = () => live.epoch;
const counts: Record<Topic, () => number> = {
  questions: () => live.news.questions,
  waits: () => live.news.waits,
  flows: () => live.news.flows,
  workers: () => live.news.workers,
};

/** Calls `look` soon after a run of whatever kind has moved, or a lane was changed. */
export function useMoves(look: () => void): void {
  useGrowth(moves, MOVES_AGAIN_MS, look);
}

/** Reads again what was read of these when there is news of the topic. */
function useTopic(topic: Topic, ...names: string[]): void {
  useGrowth(counts[topic], TOPIC_AGAIN_MS[topic], () => {
    for (const name of names) void readAgain(name);
  });
}

/**
 * Reads again what was read under this name. A first reading that is still in flight may be older than the news, and
 * invalidating it would only wait for it: it is awaited, and then repeated.
 */
async function readAgain(name: string): Promise<void> {
  const queryKey = [name];
  const first = queries.getQueryCache().findAll({ queryKey, fetchStatus: "fetching", predicate: ({ state }) => state.data === undefined });
  await Promise.allSettled(first.map((query) => query.promise));
  await queries.invalidateQueries({ queryKey });
}

/** For as long as the page is open, nothing that was read stays as it was when it is out of date. */
export function useFreshReadings(): void {
  useTopic("questions", "interrupts");
  useTopic("waits", "approvals");
  useTopic("flows", "flow", "flows");
  useTopic("workers", "workers");
  // What happened before a new snapshot was told to nobody. Before the first one nothing was read.
  useGrowth(epochs, 0, () => live.epoch > 1 && void queries.invalidateQueries());
}
