/** Tasks that wait for a person. The stream tells when to look again. */
import { useQuery } from "@tanstack/react-query";
import { answerOf } from "../api";
import { listTasks } from "../client";

export const APPROVAL_COUNT_MAX = 100;

export function useApprovals() {
  return useQuery({
    queryKey: ["approvals"],
    queryFn: () => answerOf(listTasks({ query: { waits_for: "approval", limit: APPROVAL_COUNT_MAX } })),
    select: (page) => page.tasks,
    staleTime: Number.POSITIVE_INFINITY,
  });
}
