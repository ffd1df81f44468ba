/** What a task is doing, in words. */
import type { TaskResponse } from "../client";
import { live, useLive } from "../live";
import { STATES } from "../parts/Pill";
import { isActive, type LiveRun } from "../stream/model";
import { moment } from "../time";

export const FLOW_JOB = "headway.flow";

type Shown = Pick<LiveRun, "status" | "state" | "is_waiting" | "error">;

/** As the stream tells it now, else as it was read. */
export function useShown(task: TaskResponse): Shown {
  const active = useLive((live) => live.runs.get(task.id));
  const ended = useLive((live) => live.ended.get(task.id));
  if (active) return active;
  if (ended) return ended;
  return { status: task.status, state: STATES[task.status], is_waiting: task.waits_for !== null, error: task.error };
}

export function isUnderWay(task: TaskResponse): boolean {
  return isActive((live.runs.get(task.id) ?? live.ended.get(task.id) ?? task).status);
}

/** Whether somebody who looks can free it at once. */
export function isAnswerable(task: TaskResponse): boolean {
  return task.waits_for === "approval" || task.waits_for === "event";
}

export function nameOf(task: TaskResponse): string {
  return task.key === task.id ? `Task ${task.id.slice(-12)}` : task.key;
}

export function waitWords(task: TaskResponse): string | null {
  switch (task.waits_for) {
    case "approval":
      return `It waits for an answer at “${task.node}”.`;
    case "event":
      return `It waits at “${task.node}” for the signal “${task.awaited_key ?? "?"}”.`;
    case "timer":
      return `It waits at “${task.node}” until its time has come.`;
    case "child":
      return `It waits at “${task.node}” for tasks that it has started.`;
    case "worker": {
      const awaited = task.awaited_worker;
      if (!awaited) return `It waits at “${task.node}” for a worker.`;
      const services = awaited.services.map((one) => `“${one}”`).join(", ");
      const times = `since ${moment(awaited.since)}, at most until ${moment(awaited.until)}`;
      return `It waits at “${task.node}” for a worker that offers ${services}: ${times}.`;
    }
    case "function":
      return `It waits at “${task.node}” for a program that has its function.`;
    case "retry":
      return `“${task.node}” has failed, and is tried again soon.`;
    default:
      return task.waits_for === null ? null : `It waits at “${task.node}”.`;
  }
}

/** The shared state as the flow sees it: what the engine keeps there for itself is nobody's business. */
export function shownShared(task: TaskResponse): unknown {
  const { shared } = task;
  if (typeof shared !== "object" || shared === null || Array.isArray(shared)) return shared;
  const { _rt: _, ...own } = shared as Record<string, unknown>;
  return own;
}
