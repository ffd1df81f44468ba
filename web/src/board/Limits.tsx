/** How many run, and how many may, at the head of the board. */
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { LimitControl } from "../lanes/LimitControl";
import { useLive } from "../live";
import classes from "./Limits.module.css";

const SHOWN_COUNT_MAX = 3;

export function Limits() {
  const lanes = useLive((live) => live.lanes);
  const waiting = useWaitingCounts();
  // The lane of the board, and every other one in which something is going on.
  const busy = lanes.filter((lane) => lane.name === "main" || lane.held_count + lane.queued_count + (waiting.get(lane.name) ?? 0) > 0);
  busy.sort((one, other) => Number(other.name === "main") - Number(one.name === "main"));
  const shown = busy.slice(0, SHOWN_COUNT_MAX);
  return (
    <div className={classes.limits}>
      {shown.map((lane) => (
        <div key={lane.name} className={classes.lane} data-testid={`lane-${lane.name}`}>
          <span className={classes.name}>
            <Link to="/lanes" dir="auto">
              {lane.name}
            </Link>
            {lane.paused && <span className={classes.paused}>paused</span>}
            <Count count={lane.held_count} word="running" isAlways />
            <Count count={waiting.get(lane.name) ?? 0} word="waiting" />
            <Count count={lane.queued_count} word="queued" />
          </span>
          {lane.name === "main" && <LimitControl lane={lane} />}
        </div>
      ))}
      {busy.length > shown.length && <Link to="/lanes">{busy.length - shown.length} more lanes</Link>}
    </div>
  );
}

function Count({ count, word, isAlways = false }: { count: number; word: string; isAlways?: boolean }) {
  if (count === 0 && !isAlways) return null;
  return (
    <span>
      <b>{count.toLocaleString("en")}</b> {word}
    </span>
  );
}

/** Of each lane, those that have begun and hold no place while they wait for something. */
function useWaitingCounts(): Map<string, number> {
  const moves = useLive((live) => live.lanes); // Told anew with every change of a run.
  const runs = useLive((live) => live.runs);
  return useMemo(() => {
    const counts = new Map<string, number>();
    for (const run of runs.values()) {
      if (run.is_waiting && run.status === "running") counts.set(run.lane, (counts.get(run.lane) ?? 0) + 1);
    }
    return counts;
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- The map is changed in place.
  }, [runs, moves]);
}
