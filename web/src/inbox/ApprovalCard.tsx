/** A task that waits for a person's word: what it is about, since when, and the answer. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { TaskResponse } from "../client";
import { flowQuery } from "../flows/calls";
import { objectOf, readGraph } from "../flows/graph";
import { labelOf } from "../form/schema";
import { Approve } from "../tasks/Steering";
import { nameOf, shownShared } from "../tasks/words";
import { ago, moment, useNow } from "../time";
import { Details } from "./Details";
import classes from "./InterruptCard.module.css";
import { briefly } from "./question";

const DETAIL_COUNT_MAX = 12;
/** What a node may say of itself, for people. */
const WORDS = ["title", "description", "question", "message"] as const;

interface Props {
  task: TaskResponse;
  /** False: it was too late. */
  onAnswered: (isTaken: boolean) => void;
}

export function ApprovalCard({ task, onAnswered }: Props) {
  const now = useNow();
  const { data: flow } = useQuery({ ...flowQuery(task.flow, task.version), staleTime: Number.POSITIVE_INFINITY });
  const node = objectOf(readGraph(flow?.definition).nodes.get(task.node)?.value);
  const said = wordsOf(node);
  const details = [...Object.entries(objectOf(task.params)), ...Object.entries(objectOf(shownShared(task)))].slice(0, DETAIL_COUNT_MAX);
  return (
    <article className={classes.card} aria-label={`${task.flow}: ${nameOf(task)}`} data-testid="waiting" tabIndex={-1}>
      <div className={classes.head}>
        <h2 dir="auto">{said ?? `May it go on at “${task.node}”?`}</h2>
        <span className={classes.where}>
          <Link to="/tasks/$taskId" params={{ taskId: task.id }} dir="auto">
            {nameOf(task)}
          </Link>{" "}
          <bdi>{task.flow}</bdi>, <span title={moment(task.updated_at)}>asked {ago(task.updated_at, now)}</span>
        </span>
      </div>
      <Details of={details.map(([name, value]) => [labelOf(name), briefly(value)])} />
      <Approve task={task} onAnswered={onAnswered} />
    </article>
  );
}

function wordsOf(node: Record<string, unknown>): string | null {
  const params = objectOf(node.params);
  for (const name of WORDS) {
    const said = params[name] ?? node[name];
    if (typeof said === "string" && said !== "" && !said.startsWith("$")) return said;
  }
  return null;
}
