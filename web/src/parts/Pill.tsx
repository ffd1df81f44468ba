import type { LiveRun, RowState, Status } from "../stream/model";
import classes from "./Pill.module.css";

export const STATES: Record<Status, RowState> = {
  queued: "Queued",
  running: "Running",
  cancelling: "Running",
  succeeded: "Done",
  failed: "Failed",
  canceled: "Cancelled",
  timed_out: "Failed",
  rejected: "Failed",
};

type Shown = Pick<LiveRun, "status" | "state" | "is_waiting">;

/** The word of the row (R1.6), and below it what it does not tell. */
function pillWord(run: Shown | undefined): { word: string; tone: string } {
  if (!run) return { word: "Idle", tone: "idle" };
  if (run.status === "cancelling") return { word: "Running (cancelling…)", tone: "cancelling" };
  if (run.status === "running" && run.is_waiting) return { word: "Running (waiting)", tone: "waiting" };
  if (run.status === "timed_out") return { word: "Failed (timed out)", tone: "failed" };
  if (run.status === "rejected") return { word: "Rejected", tone: "failed" };
  return { word: run.state, tone: run.state.toLowerCase() };
}

/** The same word for a state that nobody is in. */
export function statusWord(status: Status): string {
  return pillWord({ status, state: STATES[status], is_waiting: false }).word;
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
