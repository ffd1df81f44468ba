/** What a row waits for, when it is more than its turn. */
import { Link } from "@tanstack/react-router";
import { useInterrupts } from "../inbox/interrupts";
import { live, useLive } from "../live";
import { useWhy } from "../runs/Why";
import type { LiveRun } from "../stream/model";
import { useApprovals } from "../tasks/approvals";
import classes from "./RowWhy.module.css";

export function RowWhy({ run }: { run: LiveRun }) {
  if (run.status === "queued" && !run.is_behind) return <ClosedLane run={run} />;
  if (run.status === "running" && run.is_waiting) return <Waits run={run} />;
  return null;
}

function ClosedLane({ run }: { run: LiveRun }) {
  const lane = useLive(() => live.laneOf(run));
  if (!lane || (!lane.paused && lane.max_concurrent > 0)) return null;
  return (
    <p className={classes.why} data-testid="row-why" dir="auto">
      Its lane <Link to="/lanes">{lane.name}</Link> {lane.paused ? "is paused" : "lets none through at once"}: nothing starts.
    </p>
  );
}

function Waits({ run }: { run: LiveRun }) {
  const isAsking = useInterrupts().data?.some((one) => one.run_id === run.id) ?? false;
  const isToApprove = useApprovals().data?.some((task) => task.id === run.id) ?? false;
  const forPerson = isAsking || isToApprove;
  const why = useWhy(run.id, !forPerson);
  if (forPerson) {
    return (
      <p className={classes.why} data-testid="row-why">
        It waits for an answer: <Link to="/inbox">see the inbox</Link>
      </p>
    );
  }
  // What was explained before it waited is out of date.
  if (!why || why.gate === "running" || why.gate === "ended") return null;
  return (
    <p className={classes.why} data-testid="row-why" dir="auto">
      {why.sentence}
    </p>
  );
}
