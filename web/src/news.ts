/** Looking again when the stream tells that there is something to see, and not too often. */
import { useCallback, useEffect, useRef } from "react";
import { live, useLive, useWatch } from "./live";

const RUN_AGAIN_MS = 400;
const MOVES_AGAIN_MS = 1_000;

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

/** Calls `look` soon after a run of whatever kind has changed its state. */
export function useMoves(look: () => void): void {
  const latest = useRef(look);
  latest.current = look;
  useEffect(() => {
    let seen = live.moves;
    let timer: ReturnType<typeof setTimeout> | null = null;
    const stop = live.subscribe(() => {
      if (live.moves === seen || timer !== null) return;
      timer = setTimeout(() => {
        timer = null;
        seen = live.moves;
        latest.current();
      }, MOVES_AGAIN_MS);
    });
    return () => {
      stop();
      if (timer !== null) clearTimeout(timer);
    };
  }, []);
}
