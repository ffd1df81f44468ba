/** A word to a run while it runs (R4.11), or to the one that comes after it. */
import { Button, SegmentedControl, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, type KeyboardEvent, useState } from "react";
import { answerOf, reasonOf } from "../api";
import { type RunView, send, submit } from "../client";
import { live } from "../live";
import { FLOW_JOB } from "../tasks/words";
import classes from "./MessageBox.module.css";

const STEER = "To this run";
const FOLLOW_UP = "To the next run";
type To = typeof STEER | typeof FOLLOW_UP;

/** The next run of the key goes on where this one ends, with the message in its inbox. */
async function followUp(run: RunView, content: string): Promise<RunView> {
  const { job, key, lane, params } = run;
  const body = { job, key, lane, params: params as Record<string, unknown>, mode: "continue", on_conflict: "enqueue" } as const;
  const next = await answerOf(submit({ body }));
  live.put(next);
  await answerOf(send({ path: { run_id: next.id }, body: { content } }));
  return next;
}

export function MessageBox({ run, isActive }: { run: RunView; isActive: boolean }) {
  const [text, setText] = useState("");
  const [to, setTo] = useState<To>(STEER);
  const sending = useMutation({
    mutationFn: async (content: string) => {
      if (to === FOLLOW_UP) return followUp(run, content);
      await answerOf(send({ path: { run_id: run.id }, body: { content } }));
      return null;
    },
    onSuccess: () => setText(""),
  });
  const canSend = text.trim() !== "" && !sending.isPending;
  // Without a key there is no next run.
  const canFollow = run.key !== run.id && run.job !== FLOW_JOB;
  function begin(event: FormEvent) {
    event.preventDefault();
    if (canSend) sending.mutate(text);
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
        error={sending.error ? reasonOf(sending.error) : null}
        autosize
        minRows={1}
        maxRows={6}
      />
      <Button type="submit" disabled={!canSend} loading={sending.isPending}>
        Send
      </Button>
      {next}
    </form>
  );
}
