/** What a person can do about a task: answer it, signal it, cancel it, run it again from a node. */
import { Button, Menu, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { answerOf, isTooLate, queries, reasonOf } from "../api";
import { approveTask, cancelTask, rerunTask, signalTask, type TaskResponse } from "../client";
import type { FlowGraph } from "../flows/graph";
import { parse } from "../form/SchemaForm";
import { AgainIcon, CheckIcon, CrossIcon, StopIcon } from "../parts/icons";
import classes from "./Steering.module.css";
import { waitWords } from "./words";

function refresh(task: TaskResponse): void {
  for (const queryKey of [["tasks"], ["approvals"], ["task", task.id]]) void queries.invalidateQueries({ queryKey });
}

export function CancelTask({ task }: { task: TaskResponse }) {
  const cancelling = useMutation({
    mutationFn: () => answerOf(cancelTask({ path: { task_id: task.id }, body: { reason: "" } })),
    onSettled: () => refresh(task),
  });
  const isAsked = task.status === "cancelling";
  return (
    <>
      {cancelling.error && <Reason error={cancelling.error} />}
      <Button size="xs" variant="default" leftSection={<StopIcon size={14} />} disabled={isAsked} loading={cancelling.isPending} onClick={() => cancelling.mutate()}>
        {isAsked ? "Cancelling…" : "Cancel"}
      </Button>
    </>
  );
}

const NODE_COUNT_MAX = 200;

/** A new task from a node on, with the shared state of this one. */
export function RunAgain({ task, graph, node }: { task: TaskResponse; graph: FlowGraph; node: string | null }) {
  const navigate = useNavigate();
  const again = useMutation({
    mutationFn: (from: string) => answerOf(rerunTask({ path: { task_id: task.id }, body: { node: from } })),
    onSuccess: (next) => void navigate({ to: "/tasks/$taskId", params: { taskId: next.id } }),
  });
  const icon = <AgainIcon size={14} />;
  return (
    <>
      {again.error && <Reason error={again.error} />}
      {node !== null ? (
        <Button size="xs" variant="light" leftSection={icon} loading={again.isPending} onClick={() => again.mutate(node)}>
          Run again from “{short(node)}”
        </Button>
      ) : (
        <Menu position="bottom-end" shadow="md">
          <Menu.Target>
            <Button size="xs" variant="light" leftSection={icon} loading={again.isPending}>
              Run again from…
            </Button>
          </Menu.Target>
          <Menu.Dropdown className={classes.nodes}>
            {[...graph.nodes.keys()].slice(0, NODE_COUNT_MAX).map((key) => (
              <Menu.Item key={key} onClick={() => again.mutate(key)}>
                <span dir="auto">{key}</span>
              </Menu.Item>
            ))}
          </Menu.Dropdown>
        </Menu>
      )}
    </>
  );
}

function short(name: string): string {
  return name.length <= 24 ? name : `${name.slice(0, 23)}…`;
}

/** What it waits for; a question can be answered right here. */
export function Waiting({ task }: { task: TaskResponse }) {
  const words = waitWords(task);
  if (words === null) return null;
  return (
    <section className={classes.waiting} data-testid="waiting" aria-label="What it waits for" tabIndex={-1}>
      <p dir="auto">{words}</p>
      {task.waits_for === "approval" && <Approve task={task} />}
      {task.waits_for === "event" && <Signal task={task} key={task.awaited_key} />}
    </section>
  );
}

interface ApproveProps {
  task: TaskResponse;
  /** False: it was too late. */
  onAnswered?: (isTaken: boolean) => void;
}

/** Approve, reject, or say which action it is to be. */
export function Approve({ task, onAnswered }: ApproveProps) {
  const [action, setAction] = useState("");
  const answering = useMutation({
    mutationFn: (answer: boolean | string) => answerOf(approveTask({ path: { task_id: task.id }, body: { answer } })),
    onSuccess: () => onAnswered?.(true),
    onError: (error) => isTooLate(error) && onAnswered?.(false),
    onSettled: () => refresh(task),
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    if (action.trim() !== "") answering.mutate(action.trim());
  }
  return (
    <form className={classes.row} onSubmit={submit}>
      <Button size="sm" leftSection={<CheckIcon />} loading={answering.isPending} onClick={() => answering.mutate(true)}>
        Approve
      </Button>
      <Button size="sm" variant="default" leftSection={<CrossIcon />} disabled={answering.isPending} onClick={() => answering.mutate(false)}>
        Reject
      </Button>
      <TextInput className={classes.other ?? ""} size="sm" label="Or another answer" placeholder="the name of an action" value={action} maxLength={255} onChange={(event) => setAction(event.currentTarget.value)} />
      {action.trim() !== "" && (
        <Button size="sm" variant="light" type="submit" disabled={answering.isPending}>
          Answer
        </Button>
      )}
      {answering.error && <Reason error={answering.error} />}
    </form>
  );
}

/** Sets a key of the shared state, and wakes the task. */
export function Signal({ task }: { task: TaskResponse }) {
  const [key, setKey] = useState(task.awaited_key ?? "");
  const [value, setValue] = useState("true");
  const sending = useMutation({
    mutationFn: () => {
      const parsed = parse(value);
      return answerOf(signalTask({ path: { task_id: task.id }, body: { key: key.trim(), value: parsed === null ? value : (parsed.value ?? null) } }));
    },
    onSettled: () => refresh(task),
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    sending.mutate();
  }
  return (
    <form className={classes.row} onSubmit={submit}>
      <TextInput size="sm" label="Signal" placeholder="A key of the shared state" value={key} maxLength={255} onChange={(event) => setKey(event.currentTarget.value)} />
      <TextInput size="sm" label="Value" placeholder="JSON, or a text" value={value} onChange={(event) => setValue(event.currentTarget.value)} />
      <Button size="sm" type="submit" variant="light" loading={sending.isPending} disabled={key.trim() === ""}>
        Signal
      </Button>
      {sending.error && <Reason error={sending.error} />}
    </form>
  );
}

function Reason({ error }: { error: unknown }) {
  return (
    <span className={classes.reason} role="alert">
      {isTooLate(error) ? "Somebody else was faster." : reasonOf(error)}
    </span>
  );
}
