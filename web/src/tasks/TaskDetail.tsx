import { Loader, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import { reasonOf } from "../api";
import type { TaskResponse } from "../client";
import { flowQuery } from "../flows/calls";
import { Drawing } from "../flows/Drawing";
import { readGraph } from "../flows/graph";
import { NodePanel } from "../flows/NodePanel";
import { Crumbs } from "../parts/Crumbs";
import { Empty } from "../parts/Empty";
import { useFocusOn } from "../parts/focusOn";
import { Json } from "../parts/Json";
import { useKeptFocus } from "../parts/keptFocus";
import { Pill } from "../parts/Pill";
import { Values } from "../parts/Values";
import { useSubject } from "../shell/title";
import { Ending, Why } from "../runs/Why";
import { ago, length, moment, useNow } from "../time";
import { Gantt } from "./Gantt";
import { litOf } from "./lit";
import { type NodeRuns, useTask } from "./nodeRuns";
import { CancelTask, RunAgain, Signal, Waiting } from "./Steering";
import classes from "./TaskDetail.module.css";
import { isAnswerable, isUnderWay, nameOf, shownShared, useShown } from "./words";

export function TaskDetail() {
  const { taskId } = useParams({ from: "/tasks/$taskId" });
  const { task, nodeRuns } = useTask(taskId);
  if (task.error && !task.data) {
    return (
      <Empty title="This task cannot be shown">
        <p>{reasonOf(task.error)}</p>
        <Link to="/flows">All flows</Link>
      </Empty>
    );
  }
  if (!task.data) return <Loader size="sm" aria-label="Reading the task" />;
  return <Detail key={taskId} task={task.data} nodeRuns={nodeRuns} />;
}

function Detail({ task, nodeRuns }: { task: TaskResponse; nodeRuns: NodeRuns }) {
  const shown = useShown(task);
  useSubject(`${nameOf(task)}, ${moment(task.started_at ?? task.queued_at)}`);
  const isActive = isUnderWay(task);
  const asked = isActive && isAnswerable(task) ? `${task.waits_for} ${task.node}` : null;
  const list = useFocusOn(asked === null ? [] : [asked]);
  const focus = useKeptFocus<HTMLDivElement>(shown.status !== "cancelling");
  const [selected, setSelected] = useState<string | null>(null);
  const { data: flow } = useQuery({ ...flowQuery(task.flow, task.version), staleTime: Number.POSITIVE_INFINITY });
  const graph = useMemo(() => readGraph(flow?.definition), [flow?.definition]);
  const lit = useMemo(() => litOf(graph, task, nodeRuns.rows, isActive), [graph, task, nodeRuns.rows, isActive]);
  const node = selected === null ? undefined : graph.nodes.get(selected);
  const rows = node ? nodeRuns.rows.filter((row) => row.node === node.key) : nodeRuns.rows;
  return (
    <>
      <Crumbs>
        {[
          <Link key="flows" to="/flows">Flows</Link>,
          <Link key="flow" to="/flows/$name" params={{ name: task.flow }} search={{ tab: "tasks" }}>{task.flow}</Link>,
          nameOf(task),
        ]}
      </Crumbs>
      <div className={classes.head}>
        <h1 dir="auto" tabIndex={-1}>{nameOf(task)}</h1>
        <Pill run={shown} />
        <div className={classes.buttons} {...focus}>{isActive ? <CancelTask task={task} /> : <RunAgain task={task} graph={graph} node={node?.key ?? null} />}</div>
      </div>
      {!isActive && <Ending of={shown} />}
      <div ref={list}>
        {asked !== null && (
          <div key={asked} data-asked={asked}>
            <Waiting task={task} />
          </div>
        )}
      </div>
      {isActive && asked === null && <Why run_id={task.id} />}
      <div className={classes.columns}>
        <div className={classes.main}>
          <section className={classes.card}>
            {graph.nodes.size > 0 && <Drawing graph={graph} label={`The way through ${task.flow}`} lit={lit} selected={selected} onSelect={setSelected} />}
            {node && <NodePanel node={node} />}
          </section>
          <section className={classes.card}>
            <h2 className={classes.title}>
              Node runs
              {node && (
                <span>
                  {" "}
                  of <bdi>{node.key}</bdi>
                </span>
              )}
            </h2>
            {(nodeRuns.isRead || nodeRuns.rows.length > 0) && <Gantt task={task} rows={rows} all={nodeRuns.rows} isUnderWay={isActive && (!node || node.key === task.node)} />}
            {nodeRuns.problem !== null && <p className={classes.hint} role="alert">Not all of them could be read. {nodeRuns.problem}</p>}
            {nodeRuns.isCut && <p className={classes.hint}>These are the first {nodeRuns.rows.length.toLocaleString("en")}; there may be more.</p>}
          </section>
        </div>
        <aside className={classes.side} aria-label="About this task">
          <Facts task={task} />
          <Documents task={task} isActive={isActive} />
        </aside>
      </div>
    </>
  );
}

function Facts({ task }: { task: TaskResponse }) {
  const now = useNow();
  const begun_ms = task.started_at === null ? null : Date.parse(task.started_at);
  return (
    <dl className={classes.facts}>
      <Fact name="Flow">
        <Link to="/flows/$name" params={{ name: task.flow }} search={{ version: task.version }}>
          <bdi>{task.flow}</bdi>, version {task.version}
        </Link>
      </Fact>
      <Fact name={task.ended_at === null ? "Stands at" : "Stood last at"}>{task.node}</Fact>
      <Fact name="Steps">{task.step_count.toLocaleString("en")}</Fact>
      <Fact name="Queued">{moment(task.queued_at)}</Fact>
      {begun_ms !== null && <Fact name={task.ended_at === null ? "For" : "Took"}>{length((task.ended_at === null ? now : Date.parse(task.ended_at)) - begun_ms)}</Fact>}
      {task.ended_at !== null && <Fact name="Ended">{ago(task.ended_at, now)}</Fact>}
      {task.parent_id !== null && (
        <Fact name="Started by">
          <Link to="/tasks/$taskId" params={{ taskId: task.parent_id }}>
            another task
          </Link>
        </Fact>
      )}
      {task.rerun_of !== null && (
        <Fact name="Run again of">
          <Link to="/tasks/$taskId" params={{ taskId: task.rerun_of }}>
            an earlier task
          </Link>
        </Fact>
      )}
      <Fact name="As a run">
        <Link to="/runs/$runId" params={{ runId: task.id }}>
          Log and events
        </Link>
      </Fact>
      <Fact name="Id">
        <code className={classes.id}>{task.id}</code>
      </Fact>
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd dir="auto">{children}</dd>
    </div>
  );
}

function Documents({ task, isActive }: { task: TaskResponse; isActive: boolean }) {
  // One that waits for a signal offers it at the top.
  const canSignal = isActive && task.waits_for !== "event";
  return (
    <section className={classes.card}>
      <Tabs defaultValue="shared" keepMounted={false}>
        <Tabs.List>
          <Tabs.Tab value="shared">Shared</Tabs.Tab>
          <Tabs.Tab value="params">Parameters</Tabs.Tab>
          {canSignal && <Tabs.Tab value="signal">Signal</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="shared" className={classes.panel}>
          <Json value={shownShared(task)} label="Shared state" />
        </Tabs.Panel>
        <Tabs.Panel value="params" className={classes.panel}>
          <Values value={task.params} label="Parameters" />
        </Tabs.Panel>
        <Tabs.Panel value="signal" className={classes.panel}>
          <p className={classes.hint}>A signal sets a key of the shared state. One that comes early is kept.</p>
          <Signal task={task} />
        </Tabs.Panel>
      </Tabs>
    </section>
  );
}
