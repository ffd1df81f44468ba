/** Why a run or a task does not move, and what would free it. */
import { useQuery } from "@tanstack/react-query";
import { answerOf, queries } from "../api";
import { explain } from "../client";
import { useMoves } from "../news";
import type { LiveRun } from "../stream/model";
import { errorText, reasonOfEnd } from "./reasons";
import classes from "./Why.module.css";

/** Not everything that could free it is told: a lease that ends, a worker that comes. */
const AGAIN_MS = 5_000;

export function useWhy(run_id: string, isWanted: boolean) {
  return useQuery({
    queryKey: ["explain", run_id],
    queryFn: () => answerOf(explain({ path: { run_id } })),
    enabled: isWanted,
    refetchInterval: AGAIN_MS,
  }).data;
}

/** Of one that is active. Nothing for one that is at work. */
export function Why({ run_id }: { run_id: string }) {
  const why = useWhy(run_id, true);
  useMoves(() => void queries.invalidateQueries({ queryKey: ["explain", run_id] }));
  if (!why || why.gate === "running" || why.gate === "ended") return null;
  return (
    <p className={classes.why} data-testid="why" dir="auto">
      <b>{why.sentence}</b> {why.remedy}
    </p>
  );
}

/** Why it ended as it did; nothing if it went well. */
export function Ending({ of: { status, error } }: { of: Pick<LiveRun, "status" | "error"> }) {
  const ending = reasonOfEnd({ status, error });
  if (ending === null) return null;
  return (
    <p className={classes.why} data-tone="failed" data-testid="why" dir="auto">
      {errorText(error) ?? ending}
    </p>
  );
}
