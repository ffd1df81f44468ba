/** A word to a run while it runs: the job reads it when it next looks (R4.11). */
import { Button, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, type KeyboardEvent, useState } from "react";
import { answerOf, reasonOf } from "../api";
import { type RunView, send } from "../client";
import classes from "./MessageBox.module.css";

export function MessageBox({ run }: { run: RunView }) {
  const [text, setText] = useState("");
  const sending = useMutation({
    mutationFn: (content: string) => answerOf(send({ path: { run_id: run.id }, body: { content } })),
    onSuccess: () => setText(""),
  });
  const canSend = text.trim() !== "" && !sending.isPending;
  function submit(event: FormEvent) {
    event.preventDefault();
    if (canSend) sending.mutate(text);
  }
  function sendByKey(event: KeyboardEvent) {
    if (event.key === "Enter" && !event.shiftKey && canSend) {
      event.preventDefault();
      sending.mutate(text);
    }
  }
  return (
    <form className={classes.box} onSubmit={submit}>
      <Textarea
        className={classes.text}
        aria-label="A message for the run"
        placeholder="A message for the run. Enter sends it."
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
    </form>
  );
}
