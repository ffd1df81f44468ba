/** The questions that wait for a person. The stream tells when to look again. */
import { useQuery } from "@tanstack/react-query";
import { answerOf } from "../api";
import { listInterrupts } from "../client";
import { listed } from "../listed";

export const SHOWN_COUNT_MAX = 200;

export function useInterrupts() {
  return useQuery({
    queryKey: ["interrupts"],
    queryFn: () =>
      listed(async (place) => {
        const { interrupts, cursor } = await answerOf(listInterrupts({ query: place }));
        return { rows: interrupts, cursor };
      }, SHOWN_COUNT_MAX),
    staleTime: Number.POSITIVE_INFINITY,
  });
}
