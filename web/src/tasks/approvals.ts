/** Tasks that wait for a person. The stream tells when to look again. */
import { useQuery } from "@tanstack/react-query";
import { listedTasks } from "./listed";

export const APPROVAL_COUNT_MAX = 100;

export function useApprovals() {
  return useQuery({
    queryKey: ["approvals"],
    queryFn: () => listedTasks({ waits_for: "approval" }, APPROVAL_COUNT_MAX),
    staleTime: Number.POSITIVE_INFINITY,
  });
}
