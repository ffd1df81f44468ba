/** Tasks, those that moved last first. */
import { Button, Loader, SegmentedControl } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { answerOf, queries, reasonOf } from "../api";
import { listTasks, type TaskView } from "../client";
import { useMoves } from "../news";
import { Empty } from "../parts/Empty";
import { Pill } from "../parts/Pill";
import { reasonOfEnd } from "../runs/reasons";
import { isActive, type Status } from "../stream/model";
import { ago, useNow } from "../time";
import classes from "./TaskRows.module.css";
import { nameOf, useShown } from "./words";

const PAGE_COUNT = 50;
const SHOWN_COUNT_MAX = 1_000;
const AGAIN_MS = 3_000;
const WANTED = {
  All: {},
  "To approve": { waits_for: "approval" },
  Running: { status: "running" },
  Failed: { status: "failed" },
} as const;
type Wanted = keyof typeof WANTED;

export function TaskRows({ flow }: { flow: string }) {
  const [wanted, setWanted] = useState<Wanted>("All");
  const [limit, setLimit] = useState(PAGE_COUNT);
  const { data, error, isFetching } = useQuery({
    queryKey: ["tasks", flow, wanted, limit],
    queryFn: () => answerOf(listTasks({ query: { ...WANTED[wanted], flow, limit } })),
    placeholderData: keepPreviousData,
    refetchInterval: AGAIN_MS, // Steps from node to node are told to nobody who does not watch the task.
  });
  useMoves(() => void queries.invalidateQueries({ queryKey: ["tasks", flow] }));
  return (
    <>
      <div className={classes.tools}>
        <SegmentedControl aria-label="Which tasks" data={Object.keys(WANTED)} value={wanted} onChange={(value) => setWanted(value as Wanted)} />
        {isFetching && !data && <Loader size="sm" aria-label="Reading the tasks" />}
      </div>
      {error && !data && <Empty title="The tasks cannot be read">{reasonOf(error)}</Empty>}
      {data?.tasks.length === 0 && (
        <Empty title={wanted === "All" ? "No tasks yet" : "No task fits"}>
          {wanted === "All" ? "Start one above; each walks through the graph and leaves its trace here." : "Choose “All” to see the others."}
        </Empty>
      )}
      {data && data.tasks.length > 0 && (
        <ul className={classes.rows} aria-label="Tasks">
          {data.tasks.map((task) => (
            <li key={task.id}>
              <TaskRow task={task} />
            </li>
          ))}
        </ul>
      )}
      {data?.tasks.length === limit && limit < SHOWN_COUNT_MAX && (
        <Button variant="default" className={classes.more} loading={isFetching} onClick={() => setLimit(Math.min(SHOWN_COUNT_MAX, limit * 2))}>
          Show more
        </Button>
      )}
    </>
  );
}

function whereWords(task: TaskView, status: Status): string {
  if (!isActive(status)) return `ended at ${task.node}`;
  return task.waits_for === null ? `at ${task.node}` : `waits at ${task.node}`;
}

function TaskRow({ task }: { task: TaskView }) {
  const now = useNow();
  const shown = useShown(task);
  const reason = reasonOfEnd(shown);
  return (
    <Link to="/tasks/$taskId" params={{ taskId: task.id }} className={classes.row} data-testid="task">
      <span className={classes.pill}>
        <Pill run={shown} />
      </span>
      <b className={classes.name} dir="auto">
        {nameOf(task)}
      </b>
      <span className={classes.node} dir="auto" data-failed={reason !== null}>
        {reason ?? whereWords(task, shown.status)}
      </span>
      <span className={classes.count}>v{task.version}</span>
      <span className={classes.when}>
        {task.step_count.toLocaleString("en")} {task.step_count === 1 ? "step" : "steps"}, {ago(task.updated_at, now)}
      </span>
    </Link>
  );
}
