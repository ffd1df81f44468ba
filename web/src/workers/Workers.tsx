/** Who does the work: the programs that hold runs, and the workers whose services flows call. */
import { Loader } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { answerOf, reasonOf } from "../api";
import { type HolderView, listInstances, listWorkers, type WorkerView } from "../client";
import { live } from "../live";
import { Empty } from "../parts/Empty";
import { length, moment, useNow } from "../time";
import classes from "./Workers.module.css";

const AGAIN_MS = 2_000;
const DAY_S = 86_400;
const SHOWN_COUNT_MAX = 8;

export function Workers() {
  const { data, error, isPending } = useQuery({
    queryKey: ["workers"],
    queryFn: () => answerOf(listWorkers({ query: { heard_within_s: DAY_S } })),
    refetchInterval: AGAIN_MS, // Heartbeats are no events: they would drown all else.
    staleTime: 0,
  });
  const workers = data?.workers.toSorted((one, other) => Number(other.is_alive) - Number(one.is_alive) || one.id.localeCompare(other.id, "en", { numeric: true })) ?? [];
  return (
    <>
      <div className={classes.head}>
        <h1>Workers</h1>
        <p>A worker is a program that offers services; the nodes of flows call them.</p>
      </div>
      <Instances />
      {isPending && <Loader size="sm" aria-label="Reading the workers" />}
      {error && !data && <Empty title="The workers cannot be read">{reasonOf(error)}</Empty>}
      {data && workers.length === 0 && <Empty title="No workers">None was heard of within a day. “headway worker” starts one with the built-in services.</Empty>}
      <div className={classes.workers}>
        {workers.map((worker) => (
          <Worker key={worker.id} worker={worker} />
        ))}
      </div>
    </>
  );
}

/** The programs that execute runs, each with the runs that it holds. */
function Instances() {
  const now = useNow();
  const { data } = useQuery({
    queryKey: ["instances"],
    queryFn: () => answerOf(listInstances()),
    refetchInterval: AGAIN_MS,
    staleTime: 0,
  });
  if (!data || data.instances.length === 0) return null;
  return (
    <section className={classes.instances} aria-label="Programs that execute runs">
      <h2>Programs that execute runs</h2>
      <ul className={classes.programs}>
        {data.instances.map((instance) => (
          <li key={instance.id} data-testid="instance">
            <span className={classes.program}>
              <b dir="auto">{instance.host}</b>
              <span>
                process {instance.pid}, up for {length(now - Date.parse(instance.started_at))}
              </span>
              <code title={instance.id}>{instance.id.slice(0, 13)}…</code>
            </span>
            <Held instance={instance} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Held({ instance: { run_ids } }: { instance: HolderView }) {
  if (run_ids.length === 0) return <span className={classes.quiet}>holds no run</span>;
  return (
    <span className={classes.held}>
      <span className={classes.quiet}>holds</span>
      {run_ids.slice(0, SHOWN_COUNT_MAX).map((id) => (
        <Link key={id} to="/runs/$runId" params={{ runId: id }} dir="auto">
          {nameOfRun(id)}
        </Link>
      ))}
      {run_ids.length > SHOWN_COUNT_MAX && <span className={classes.quiet}>and {run_ids.length - SHOWN_COUNT_MAX} more</span>}
    </span>
  );
}

function nameOfRun(id: string): string {
  const run = live.runs.get(id);
  return run === undefined || run.key === id ? (run?.job ?? `Run ${id.slice(-12)}`) : run.key;
}

function Worker({ worker }: { worker: WorkerView }) {
  const now = useNow();
  const silent_ms = Math.max(0, now - Date.parse(worker.heartbeat_at));
  return (
    <section className={classes.worker} data-alive={worker.is_alive} aria-label={`Worker ${worker.id}`} data-testid="worker">
      <div className={classes.title}>
        <h2 dir="auto">{worker.id}</h2>
        <span className={classes.state}>{worker.is_alive ? "Alive" : "Silent"}</span>
      </div>
      <dl className={classes.facts}>
        <div>
          <dt>Address</dt>
          <dd className={classes.address} dir="auto">
            {worker.url}
          </dd>
        </div>
        <div>
          <dt>Last heard</dt>
          <dd title={moment(worker.heartbeat_at)}>{length(silent_ms)} ago</dd>
        </div>
        <div>
          <dt>Load</dt>
          <dd>{worker.load === 1 ? "1 call" : `${worker.load.toLocaleString("en")} calls`}</dd>
        </div>
      </dl>
      <ul className={classes.services} aria-label={`Services of ${worker.id}`}>
        {worker.services.map((service) => (
          <li key={service} dir="auto">
            {service}
          </li>
        ))}
      </ul>
      <Calls worker={worker} now={now} />
    </section>
  );
}

function nameOfTask(id: string): string {
  const run = live.runs.get(id);
  return run === undefined || run.key === id ? `Task ${id.slice(-12)}` : run.key;
}

function Calls({ worker, now }: { worker: WorkerView; now: number }) {
  if (worker.calls.length === 0) return <p className={classes.quiet}>{worker.is_alive ? "This server waits for nothing from it." : "It gets no calls until it is heard of again."}</p>;
  return (
    <div className={classes.calls}>
      <h3>Running</h3>
      <ul>
        {worker.calls.slice(0, SHOWN_COUNT_MAX).map((call) => (
          <li key={`${call.task_id} ${call.called_at}`}>
            <Link to="/tasks/$taskId" params={{ taskId: call.task_id }}>
              {nameOfTask(call.task_id)}
            </Link>
            <span dir="auto">{call.service}</span>
            <span className={classes.for}>{length(now - Date.parse(call.called_at))}</span>
          </li>
        ))}
      </ul>
      {worker.calls.length > SHOWN_COUNT_MAX && <p className={classes.quiet}>and {(worker.calls.length - SHOWN_COUNT_MAX).toLocaleString("en")} more</p>}
    </div>
  );
}
