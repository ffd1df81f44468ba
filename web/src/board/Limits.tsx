/** How many run, and how many may, at the head of the board. */
import { Link } from "@tanstack/react-router";
import { LimitControl } from "../lanes/LimitControl";
import { useLive } from "../live";
import classes from "./Limits.module.css";

const SHOWN_COUNT_MAX = 3;

export function Limits() {
  const lanes = useLive((live) => live.lanes);
  // The lane of the board, and every other one in which something is going on.
  const busy = lanes.filter((lane) => lane.name === "main" || lane.held_count + lane.queued_count + lane.waiting_count > 0);
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
            <Count count={lane.waiting_count} word="waiting" />
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
