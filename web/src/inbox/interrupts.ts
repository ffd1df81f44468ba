/** The questions that wait for a person. The stream tells when to look again. */
import { useQuery } from "@tanstack/react-query";
import { answerOf } from "../api";
import { listInterrupts } from "../client";

export const SHOWN_COUNT_MAX = 200;

export function useInterrupts() {
  return useQuery({
    queryKey: ["interrupts"],
    queryFn: () => answerOf(listInterrupts({ query: { limit: SHOWN_COUNT_MAX } })),
    select: (page) => page.interrupts,
    staleTime: Number.POSITIVE_INFINITY,
  });
}
