import { Switch } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { answerOf, reasonOf } from "../api";
import { type LaneResponse, setLane } from "../client";
import { live, useLive } from "../live";
import { Empty } from "../parts/Empty";
import type { LiveRun } from "../stream/model";
import { length, useNow } from "../time";
import { LimitControl, QueueLimitControl } from "./LimitControl";
import classes from "./Lanes.module.css";
import { Sparkline } from "./Sparkline";

const SHOWN_COUNT_MAX = 8;

export function Lanes() {
  const lanes = useLive((live) => live.lanes);
  const sorted = useMemo(() => [...lanes].sort(byUse), [lanes]);
  return (
    <>
      <div className={classes.head}>
        <h1>Lanes</h1>
        <p>A lane lets a few runs through at once; the others are queued.</p>
      </div>
      {sorted.length === 0 && <Empty title="No lanes yet">A lane is there as soon as a run has used it.</Empty>}
      <div className={classes.lanes}>
        {sorted.map((lane) => (
          <Lane key={lane.name} lane={lane} />
        ))}
      </div>
    </>
  );
}

function byUse(one: LaneResponse, other: LaneResponse): number {
  if (one.name === "main" || other.name === "main") return one.name === "main" ? -1 : 1;
  return one.name.localeCompare(other.name, "en", { numeric: true });
}

function Lane({ lane }: { lane: LaneResponse }) {
  const pausing = useMutation({
    mutationFn: (paused: boolean) => answerOf(setLane({ path: { name: lane.name }, body: { paused } })),
    onSuccess: (view) => live.putLane(view),
  });
  const share = lane.max_concurrent === 0 ? 0 : Math.min(1, lane.held_count / lane.max_concurrent);
  return (
    <section className={classes.lane} aria-label={`Lane ${lane.name}`} data-testid="lane">
      <div className={classes.use}>
        <h2 dir="auto">{lane.name}</h2>
        <div className={classes.meter} aria-hidden="true">
          <span style={{ width: `${share * 100}%` }} />
        </div>
        <p className={classes.counts}>
          <b>{lane.held_count}</b> of {lane.max_concurrent} running, <b>{lane.queued_count}</b> queued
          {lane.paused && <span className={classes.paused}> · paused: nothing starts</span>}
        </p>
        <Sparkline lane={lane.name} />
      </div>
      <Users lane={lane.name} />
      <div className={classes.controls}>
        <LimitControl lane={lane} />
        <QueueLimitControl lane={lane} />
        <Switch
          label="Pause"
          checked={pausing.isPending ? pausing.variables : lane.paused}
          onChange={(event) => pausing.mutate(event.currentTarget.checked)}
          aria-label={`Pause ${lane.name}`}
        />
        {pausing.error && (
          <p className={classes.reason} role="alert">
            {reasonOf(pausing.error)}
          </p>
        )}
      </div>
    </section>
  );
}

/** Who holds a place, who has given it back while it waits, and who is next. */
function Users({ lane }: { lane: string }) {
  const runs = useLive((live) => live.runs);
  const lanes = useLive((live) => live.lanes); // Told anew with every change of a run.
  const { held, waiting, next } = useMemo(() => {
    const mine = [...runs.values()].filter((run) => run.lane === lane);
    const queued = mine.filter((run) => run.status === "queued" && !run.is_behind);
    queued.sort((one, other) => (live.placeOf(one) ?? 0) - (live.placeOf(other) ?? 0));
    const begun = mine.filter((run) => run.status !== "queued");
    return { held: begun.filter((run) => !run.is_waiting), waiting: begun.filter((run) => run.is_waiting), next: queued, lanes };
  }, [runs, lanes, lane]);
  if (held.length + waiting.length + next.length === 0) return <p className={classes.quiet}>Nobody is here.</p>;
  return (
    <div className={classes.users}>
      <UserList title="Running" runs={held} />
      <UserList title="Waiting, holds no place" runs={waiting} />
      <UserList title="Queued" runs={next} isQueue />
    </div>
  );
}

function UserList({ title, runs, isQueue = false }: { title: string; runs: LiveRun[]; isQueue?: boolean }) {
  const now = useNow();
  if (runs.length === 0) return null;
  return (
    <div>
      <h3>{title}</h3>
      <ol className={classes.list}>
        {runs.slice(0, SHOWN_COUNT_MAX).map((run, index) => (
          <li key={run.id}>
            {isQueue && <span className={classes.place}>{index + 1}</span>}
            <Link to="/runs/$runId" params={{ runId: run.id }} dir="auto">
              {run.key === run.id ? (run.job ?? run.id) : run.key}
            </Link>
            <span className={classes.for}>{run.status === "cancelling" ? "cancelling…" : length(now - Date.parse(run.started_at ?? run.queued_at))}</span>
          </li>
        ))}
      </ol>
      {runs.length > SHOWN_COUNT_MAX && <p className={classes.quiet}>and {(runs.length - SHOWN_COUNT_MAX).toLocaleString("en")} more</p>}
    </div>
  );
}
