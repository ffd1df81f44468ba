/** The questions that wait for a person. */
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { answerOf, queries } from "../api";
import { listInterrupts } from "../client";
import { live } from "../live";

const AGAIN_MS = 300;
export const SHOWN_COUNT_MAX = 200;

export function useInterrupts() {
  return useQuery({
    queryKey: ["interrupts"],
    queryFn: () => answerOf(listInterrupts({ query: { limit: SHOWN_COUNT_MAX } })),
    select: (page) => page.interrupts,
    staleTime: Number.POSITIVE_INFINITY, // The stream tells when to look again.
  });
}

/** Looks again when the stream tells that somebody was asked or has answered. */
export function useFreshInterrupts(): void {
  useEffect(() => {
    let seen = 0;
    let timer: ReturnType<typeof setTimeout> | null = null;
    return live.subscribe(() => {
      if (live.questions === seen) return;
      seen = live.questions;
      timer ??= setTimeout(() => {
        timer = null;
        void queries.invalidateQueries({ queryKey: ["interrupts"] });
      }, AGAIN_MS);
    });
  }, []);
}
