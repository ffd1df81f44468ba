import type { LiveRun } from "../stream/model";
import classes from "./Pill.module.css";

type Shown = Pick<LiveRun, "status" | "state" | "is_waiting">;

/** The word of the row (R1.6), and below it what it does not tell. */
export function pillWord(run: Shown | undefined): { word: string; tone: string } {
  if (!run) return { word: "Idle", tone: "idle" };
  if (run.status === "cancelling") return { word: "Running (cancelling…)", tone: "cancelling" };
  if (run.status === "running" && run.is_waiting) return { word: "Running (waiting)", tone: "waiting" };
  if (run.status === "timed_out") return { word: "Failed (timed out)", tone: "failed" };
  if (run.status === "rejected") return { word: "Rejected", tone: "failed" };
  return { word: run.state, tone: run.state.toLowerCase() };
}

export function Pill({ run }: { run: Shown | undefined }) {
  const { word, tone } = pillWord(run);
  return (
    <span className={classes.pill} data-tone={tone} data-testid="pill">
      <span className={classes.dot} aria-hidden="true" />
      {word}
    </span>
  );
}
