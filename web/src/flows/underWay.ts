import { useQuery } from "@tanstack/react-query";
import { queries } from "../api";
import type { TaskResponse } from "../client";
import { useMoves } from "../news";
import { listedTasks } from "../tasks/listed";

export const UNDER_WAY_COUNT_MAX = 500;
const AGAIN_MS = 5_000;

/** The tasks that are under way, of one flow or of all; of those that moved last, so many at most. */
export function useUnderWay(flow?: string): TaskResponse[] | undefined {
  const queryKey = ["tasks", "under way", flow ?? null];
  const { data } = useQuery({
    queryKey,
    queryFn: () => listedTasks({ ...(flow === undefined ? {} : { flow }), status: "running" }, UNDER_WAY_COUNT_MAX),
    refetchInterval: AGAIN_MS,
  });
  useMoves(() => void queries.invalidateQueries({ queryKey }));
  return data;
}
