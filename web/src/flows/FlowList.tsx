import { Button, Loader } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { answerOf, reasonOf } from "../api";
import { type FlowView, listFlows, listTasks, type TaskResponse } from "../client";
import { AlertIcon } from "../parts/icons";
import { Empty } from "../parts/Empty";
import { Pill } from "../parts/Pill";
import { nameOf, useShown } from "../tasks/words";
import { ago, moment, useNow } from "../time";
import { flowQuery } from "./calls";
import classes from "./FlowList.module.css";
import { FlowsHead } from "./FlowsHead";
import { UNDER_WAY_COUNT_MAX, useUnderWay } from "./underWay";

const PAGE_COUNT = 100;
const SHOWN_COUNT_MAX = 1_000;
const AGAIN_MS = 10_000;

export function FlowList() {
  const [limit, setLimit] = useState(PAGE_COUNT);
  const { data, error, isPending } = useQuery({
    queryKey: ["flows", limit],
    queryFn: () => answerOf(listFlows({ query: { limit } })),
    refetchInterval: AGAIN_MS,
  });
  const flows = data?.flows ?? [];
  const counts = useActiveCounts();
  return (
    <>
      <FlowsHead />
      {error && !data && <Empty title="The flows cannot be read">{reasonOf(error)}</Empty>}
      {isPending && <Loader size="sm" aria-label="Reading the flows" />}
      {data && flows.length === 0 && (
        <Empty title="No flows yet">
          Publish the first one here, with “headway flow publish”, or from a program with “hw.flows.publish”.
        </Empty>
      )}
      {flows.length > 0 && (
        <ul className={classes.rows} aria-label="Flows">
          {flows.map((flow) => (
            <li key={flow.name}>
              <FlowRow flow={flow} active={counts?.get(flow.name)} />
            </li>
          ))}
        </ul>
      )}
      {flows.length === limit && limit < SHOWN_COUNT_MAX && (
        <Button variant="default" className={classes.more} onClick={() => setLimit(Math.min(SHOWN_COUNT_MAX, limit * 2))}>
          Show more
        </Button>
      )}
    </>
  );
}

interface Active {
  running: number;
  waiting: number;
}

/** How many tasks of each flow are under way; null: too many to be counted here. */
function useActiveCounts(): Map<string, Active> | null {
  const tasks = useUnderWay();
  if (!tasks || tasks.length === UNDER_WAY_COUNT_MAX) return null;
  const counts = new Map<string, Active>();
  for (const task of tasks) {
    const { running, waiting } = counts.get(task.flow) ?? { running: 0, waiting: 0 };
    counts.set(task.flow, task.waits_for === null ? { running: running + 1, waiting } : { running, waiting: waiting + 1 });
  }
  return counts;
}

function FlowRow({ flow, active }: { flow: FlowView; active: Active | undefined }) {
  return (
    <Link to="/flows/$name" params={{ name: flow.name }} className={classes.row} data-testid="flow">
      <span className={classes.name}>
        <b dir="auto">{flow.name}</b>
        <span className={classes.version}>
          {flow.version > 0 ? `version ${flow.version}` : "not published"}
          {flow.latest > flow.version && <span>, draft {flow.latest}</span>}
        </span>
      </span>
      <span className={classes.warnings}>{flow.version > 0 && <WarningCount flow={flow} />}</span>
      <span className={classes.active}>
        {active && active.running > 0 && <span>{active.running} running</span>}
        {active && active.waiting > 0 && <span>{active.waiting} waiting</span>}
      </span>
      <LastTask flow={flow} />
    </Link>
  );
}

/** The task that moved last; of a flow that has none, when it was published. */
function LastTask({ flow }: { flow: FlowView }) {
  const now = useNow();
  const { data } = useQuery({
    queryKey: ["tasks", flow.name, "last"],
    queryFn: () => answerOf(listTasks({ query: { flow: flow.name, limit: 1 } })),
    refetchInterval: AGAIN_MS,
  });
  const task = data?.tasks[0];
  if (task) return <LastShown task={task} />;
  return (
    <span className={classes.last} title={moment(flow.updated_at)}>
      <span>no task yet, published {ago(flow.updated_at, now)}</span>
    </span>
  );
}

function LastShown({ task }: { task: TaskResponse }) {
  const now = useNow();
  return (
    <span className={classes.last} title={moment(task.updated_at)}>
      <Pill run={useShown(task)} />
      <span className={classes.lastName} dir="auto">
        {nameOf(task)}
      </span>
      <span>{ago(task.updated_at, now)}</span>
    </span>
  );
}

function WarningCount({ flow }: { flow: FlowView }) {
  const { queryKey, queryFn } = flowQuery(flow.name);
  const { data } = useQuery({ queryKey: [...queryKey, flow.digest], queryFn, staleTime: 60_000 });
  const count = data?.warnings.length ?? 0;
  if (count === 0) return null;
  return (
    <>
      <AlertIcon size={14} /> {count === 1 ? "1 warning" : `${count} warnings`}
    </>
  );
}
