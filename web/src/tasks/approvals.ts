/** Tasks that wait for a person. */
import { useQuery } from "@tanstack/react-query";
import { answerOf, queries } from "../api";
import { listTasks, type TaskView } from "../client";
import { useMoves } from "../news";

const AGAIN_MS = 3_000;
const NONE: TaskView[] = [];

export function useApprovals(): TaskView[] {
  const { data } = useQuery({
    queryKey: ["tasks", "to approve"],
    queryFn: () => answerOf(listTasks({ query: { waits_for: "approval", limit: 100 } })),
    refetchInterval: AGAIN_MS, // That a task waits is no change of its state.
  });
  useMoves(() => void queries.invalidateQueries({ queryKey: ["tasks", "to approve"] }));
  return data?.tasks ?? NONE;
}
