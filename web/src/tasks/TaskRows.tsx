/** Tasks, those that moved last first. */
import { Button, Loader, Select } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { queries, reasonOf } from "../api";
import type { TaskResponse } from "../client";
import { useMoves } from "../news";
import { Empty } from "../parts/Empty";
import { Pill } from "../parts/Pill";
import { WindowRows } from "../parts/WindowRows";
import { reasonOfEnd } from "../runs/reasons";
import { isActive, type Status } from "../stream/model";
import { ago, useNow } from "../time";
import { listedTasks } from "./listed";
import classes from "./TaskRows.module.css";
import { nameOf, useShown } from "./words";

const PAGE_COUNT = 50;
const SHOWN_COUNT_MAX = 1_000;
const AGAIN_MS = 3_000;
const ROW_HEIGHT = 49;
const WANTED = {
  "All tasks": {},
  "To approve": { waits_for: "approval" },
  Queued: { status: "queued" },
  Running: { status: "running" },
  Done: { status: "succeeded" },
  Failed: { status: "failed" },
  Cancelled: { status: "canceled" },
} as const;
type Wanted = keyof typeof WANTED;

/** Of one flow, or of all. */
export function TaskRows({ flow }: { flow?: string }) {
  const [wanted, setWanted] = useState<Wanted>("All tasks");
  const [limit, setLimit] = useState(PAGE_COUNT);
  const { data, error, isFetching } = useQuery({
    queryKey: ["tasks", flow ?? null, wanted, limit],
    queryFn: () => listedTasks({ ...WANTED[wanted], ...(flow === undefined ? {} : { flow }) }, limit),
    placeholderData: keepPreviousData,
    // Steps from node to node are told to nobody who does not watch the task. Many are read less often.
    refetchInterval: (AGAIN_MS * limit) / PAGE_COUNT,
  });
  useMoves(() => {
    if (limit === PAGE_COUNT) void queries.invalidateQueries({ queryKey: ["tasks", flow ?? null] });
  });
  const isAll = wanted === "All tasks";
  return (
    <>
      <div className={classes.tools}>
        <Select aria-label="Which tasks" data={Object.keys(WANTED)} value={wanted} allowDeselect={false} onChange={(value) => setWanted((value ?? "All tasks") as Wanted)} />
        {isFetching && !data && <Loader size="sm" aria-label="Reading the tasks" />}
      </div>
      {error && !data && <Empty title="The tasks cannot be read">{reasonOf(error)}</Empty>}
      {data?.length === 0 && (
        <Empty title={isAll ? "No tasks yet" : "No task fits"}>
          {isAll ? "A flow starts one; each walks through its graph and leaves its trace here." : "Choose “All tasks” to see the others."}
        </Empty>
      )}
      {data && data.length > 0 && <Rows tasks={data} hasFlow={flow === undefined} />}
      {data?.length === limit && limit < SHOWN_COUNT_MAX && (
        <Button variant="default" className={classes.more} loading={isFetching} onClick={() => setLimit(Math.min(SHOWN_COUNT_MAX, limit * 2))}>
          Show more
        </Button>
      )}
    </>
  );
}

function Rows({ tasks, hasFlow }: { tasks: TaskResponse[]; hasFlow: boolean }) {
  return (
    <WindowRows label="Tasks" count={tasks.length} rowHeight={ROW_HEIGHT} keyOf={(index) => tasks[index]?.id ?? index} className={classes.rows}>
      {(index) => <TaskRow task={tasks[index] as TaskResponse} hasFlow={hasFlow} />}
    </WindowRows>
  );
}

function whereWords(task: TaskResponse, status: Status): string {
  if (!isActive(status)) return `ended at ${task.node}`;
  return task.waits_for === null ? `at ${task.node}` : `waits at ${task.node}`;
}

function TaskRow({ task, hasFlow }: { task: TaskResponse; hasFlow: boolean }) {
  const now = useNow();
  const shown = useShown(task);
  const reason = reasonOfEnd(shown);
  return (
    <Link to="/tasks/$taskId" params={{ taskId: task.id }} className={classes.row} data-testid="task">
      <span className={classes.pill}>
        <Pill run={shown} />
      </span>
      <span className={classes.name} dir="auto">
        <b>{nameOf(task)}</b>
        {hasFlow && <span dir="auto">{task.flow}</span>}
      </span>
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
