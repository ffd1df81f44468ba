import { Switch } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { answerOf, reasonOf } from "../api";
import { LimitControl } from "../board/Limits";
import { type LaneView, setLane } from "../client";
import { live, useLive } from "../live";
import { Empty } from "../parts/Empty";
import { Pill } from "../parts/Pill";
import type { LiveRun } from "../stream/model";
import { length, useNow } from "../time";
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
        <p>A lane lets a few runs through at once; the others wait in line.</p>
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

function byUse(one: LaneView, other: LaneView): number {
  if (one.name === "main" || other.name === "main") return one.name === "main" ? -1 : 1;
  return one.name.localeCompare(other.name, "en", { numeric: true });
}

function Lane({ lane }: { lane: LaneView }) {
  const pausing = useMutation({
    mutationFn: (paused: boolean) => answerOf(setLane({ path: { name: lane.name }, body: { paused } })),
    onSuccess: (view) => live.putLane(view),
  });
  const share = lane.max_concurrent === 0 ? 0 : Math.min(1, lane.held_count / lane.max_concurrent);
  return (
    <section className={classes.lane} aria-label={`Lane ${lane.name}`} data-testid="lane">
      <div className={classes.title}>
        <h2 dir="auto">{lane.name}</h2>
        <LimitControl lane={lane} />
        <Switch
          label="Paused"
          checked={pausing.isPending ? pausing.variables : lane.paused}
          onChange={(event) => pausing.mutate(event.currentTarget.checked)}
          aria-label={`Paused: ${lane.name}`}
        />
      </div>
      {pausing.error && <p className={classes.reason}>{reasonOf(pausing.error)}</p>}
      <div className={classes.meter} aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </div>
      <p className={classes.counts}>
        <b>{lane.held_count}</b> of {lane.max_concurrent} at work, <b>{lane.queued_count}</b> in line
        {lane.max_queued !== null && `, at most ${lane.max_queued.toLocaleString("en")} may wait`}
        {lane.paused && <span className={classes.paused}> · paused: nothing starts</span>}
      </p>
      <Sparkline lane={lane.name} />
      <Users lane={lane.name} />
    </section>
  );
}

/** Who holds a place, and who is next. */
function Users({ lane }: { lane: string }) {
  const runs = useLive((live) => live.runs);
  const moves = useLive((live) => live.moves);
  const { held, next } = useMemo(() => {
    const mine = [...runs.values()].filter((run) => run.lane === lane);
    const waiting = mine.filter((run) => run.status === "queued" && !run.is_behind);
    waiting.sort((one, other) => (live.placeOf(one) ?? 0) - (live.placeOf(other) ?? 0));
    return { held: mine.filter((run) => run.status !== "queued"), next: waiting, moves };
  }, [runs, moves, lane]);
  if (held.length + next.length === 0) return <p className={classes.quiet}>Nobody is here.</p>;
  return (
    <div className={classes.users}>
      <UserList title="Here now" runs={held} />
      <UserList title="Next in line" runs={next} isQueue />
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
            {isQueue ? <span className={classes.place}>{index + 1}</span> : <Pill run={run} />}
            <Link to="/runs/$runId" params={{ runId: run.id }} dir="auto">
              {run.key === run.id ? (run.job ?? run.id) : run.key}
            </Link>
            <span className={classes.for}>{length(now - Date.parse(run.started_at ?? run.queued_at))}</span>
          </li>
        ))}
      </ol>
      {runs.length > SHOWN_COUNT_MAX && <p className={classes.quiet}>and {(runs.length - SHOWN_COUNT_MAX).toLocaleString("en")} more</p>}
    </div>
  );
}
