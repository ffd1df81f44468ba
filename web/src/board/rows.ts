/** A row: what is saved of a key, what runs of it, and what was typed. */
import { useQuery } from "@tanstack/react-query";
import { answerOf } from "../api";
import { getRun } from "../client";
import type { Values } from "../form/SchemaForm";
import { useLive } from "../live";
import { isActive, type LiveRun } from "../stream/model";
import { FLOW_JOB } from "../tasks/words";
import { useNote } from "./notes";

export interface Row {
  key: string;
  job: string | null;
  /** The one that is active, else the last: it gives the row its word. */
  run: LiveRun | undefined;
  /** The one whose figures are shown: a run that never began leaves those of the one before it. */
  figures: LiveRun | undefined;
  canContinue: boolean;
  isLocked: boolean;
  isSaved: boolean;
  /** Whether the row is a single run without a key. */
  isKeyless: boolean;
  /** What runs is a task of a flow: it is started and steered elsewhere. */
  isTask: boolean;
  values: Values;
}

export function useRow(key: string): Row {
  const saved = useLive((live) => live.keys.get(key));
  const run = useLive((live) => live.runOf(key));
  const begun = useLive((live) => live.begunOf(key));
  const isLocked = run !== undefined && isActive(run.status);
  const { draft, isOpen } = useNote(key);
  // While it is locked, an open row shows what the run was given, whatever is saved.
  const { data: given } = useQuery({
    queryKey: ["given", run?.id],
    queryFn: () => answerOf(getRun({ path: { run_id: run?.id ?? "" } })),
    enabled: run !== undefined && (saved === undefined || (isLocked && isOpen)),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const job = (isLocked ? (run.job ?? given?.job) : null) ?? saved?.job ?? run?.job ?? given?.job ?? null;
  const values = ((isLocked ? given?.params : draft) ?? saved?.params ?? given?.params ?? {}) as Values;
  const hasBegun = run !== undefined && (isLocked || run.started_at !== null);
  return {
    key,
    job,
    run,
    figures: hasBegun ? run : begun,
    canContinue: begun !== undefined,
    isLocked,
    isSaved: saved !== undefined,
    isKeyless: saved === undefined && run?.id === key,
    isTask: job === FLOW_JOB,
    values,
  };
}
