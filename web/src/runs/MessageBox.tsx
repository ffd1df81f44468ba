/** A word to a run while it runs (R4.11), or to the one that comes after it. */
import { Button, SegmentedControl, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, type KeyboardEvent, useState } from "react";
import { answerOf, reasonOf, Refusal } from "../api";
import { type RunView, send, submit } from "../client";
import { live } from "../live";
import { FLOW_JOB } from "../tasks/words";
import classes from "./MessageBox.module.css";

const STEER = "To this run";
const FOLLOW_UP = "To the next run";
type To = typeof STEER | typeof FOLLOW_UP;
type Deliver = "now" | "when_listening";
const NOT_NOW: Record<string, string> = {
  not_started: "The run has not started, so it accepts no messages yet.",
  not_streaming: "The run does not listen for messages now.",
  compacting: "The run is compacting, and accepts no messages until it has finished.",
};

/** Return why the run refuses the message now if it would accept it later, else null. */
function waitableReason(error: unknown): string | null {
  if (!(error instanceof Refusal) || error.problem.can_wait !== true) return null;
  return NOT_NOW[String(error.problem.reason)] ?? "The run does not accept messages now.";
}

/** The next run of the key goes on where this one ends, with the message in its inbox. */
async function followUp(run: RunView, content: string): Promise<RunView> {
  const { job, key, lane, params } = run;
  const body = { job, key, lane, params: params as Record<string, unknown>, mode: "continue", on_conflict: "enqueue" } as const;
  const next = await answerOf(submit({ body }));
  live.put(next);
  await answerOf(send({ path: { run_id: next.id }, body: { content, deliver: "when_listening" } }));
  return next;
}

export function MessageBox({ run, isActive }: { run: RunView; isActive: boolean }) {
  const [text, setText] = useState("");
  const [to, setTo] = useState<To>(STEER);
  const sending = useMutation({
    mutationFn: async ({ content, deliver }: { content: string; deliver: Deliver }) => {
      if (to === FOLLOW_UP) return followUp(run, content);
      await answerOf(send({ path: { run_id: run.id }, body: { content, deliver } }));
      return null;
    },
    onSuccess: () => setText(""),
  });
  const canSend = text.trim() !== "" && !sending.isPending;
  const notNow = waitableReason(sending.error);
  const isWaiting = sending.isSuccess && sending.data === null && sending.variables.deliver === "when_listening";
  // Without a key there is no next run.
  const canFollow = run.key !== run.id;
  function begin(event: FormEvent) {
    event.preventDefault();
    if (canSend) sending.mutate({ content: text, deliver: "now" });
  }
  function sendByKey(event: KeyboardEvent) {
    // Whoever composes a word chooses it with Enter.
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing && canSend) begin(event);
  }
  // It is still true when the run is over, and the way to where the message went.
  const next = sending.data && (
    <p className={classes.next} role="status">
      It waits for <Link to="/runs/$runId" params={{ runId: sending.data.id }}>the next run</Link>.
    </p>
  );
  if (!isActive) return next;
  if (run.job === FLOW_JOB) {
    return (
      <p className={classes.next}>
        A task of a flow accepts signals instead of messages. <Link to="/tasks/$taskId" params={{ taskId: run.id }}>Send it a signal</Link>
      </p>
    );
  }
  return (
    <form className={classes.box} onSubmit={begin}>
      {canFollow && <SegmentedControl className={classes.to} size="xs" aria-label="Who gets the message" data={[STEER, FOLLOW_UP]} value={to} onChange={(chosen) => setTo(chosen as To)} />}
      <Textarea
        className={classes.text}
        aria-label="A message for the run"
        placeholder={to === STEER ? "A message for the run. Enter sends it." : "What the next run of this key is to begin with. Enter sends it."}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={sendByKey}
        error={sending.error && (notNow ?? reasonOf(sending.error))}
        autosize
        minRows={1}
        maxRows={6}
      />
      <Button type="submit" disabled={!canSend} loading={sending.isPending}>
        Send
      </Button>
      {notNow !== null && (
        <Button variant="default" disabled={!canSend} onClick={() => sending.mutate({ content: text, deliver: "when_listening" })}>
          Deliver when it listens
        </Button>
      )}
      {isWaiting && (
        <p className={classes.next} role="status">
          It waits until the run listens. If the run ends before, the message is reported as unread.
        </p>
      )}
      {next}
    </form>
  );
}
