import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { answerOf, isTooLate, queries, reasonOf, Refusal } from "../api";
import { type InterruptView, resume } from "../client";
import { SchemaForm, type Values } from "../form/SchemaForm";
import { withDefaults } from "../form/schema";
import { CheckIcon, CrossIcon } from "../parts/icons";
import { ago, useNow } from "../time";
import { Details } from "./Details";
import classes from "./InterruptCard.module.css";
import { defaultWords, problemsOf, shownOf } from "./question";

interface Props {
  interrupt: InterruptView;
  isInRun?: boolean;
  /** False: it was too late. */
  onAnswered?: (isTaken: boolean) => void;
}

/** A question to a person. The first answer stands; who comes later is told so. */
export function InterruptCard({ interrupt, isInRun = false, onAnswered }: Props) {
  const { run_id, call_id, key, job, asked_at } = interrupt;
  const { title, details, form, canDeny, answer } = shownOf(interrupt);
  const [values, setValues] = useState<Values>({});
  const now = useNow();
  const answering = useMutation({
    mutationFn: (approved: boolean) => {
      const body = answer(approved, form ? withDefaults(form, values) : {});
      return answerOf(resume({ path: { run_id }, body: { ...body, call_id } }));
    },
    onSuccess: () => onAnswered?.(true),
    onError: (error) => isTooLate(error) && onAnswered?.(false),
    onSettled: () => queries.invalidateQueries({ queryKey: ["interrupts"] }),
  });
  const problems = answering.error instanceof Refusal ? problemsOf(answering.error.issues) : {};
  return (
    <article className={classes.card} aria-label={title} data-testid="question" tabIndex={-1}>
      <div className={classes.head}>
        <h2 dir="auto">{title}</h2>
        <span className={classes.where}>
          {!isInRun && (
            <>
              <Link to="/runs/$runId" params={{ runId: run_id }}>
                {key === run_id ? job : key}
              </Link>{" "}
              {key !== run_id && `${job}, `}
            </>
          )}
          asked {ago(asked_at, now)}
        </span>
      </div>
      <Details of={details} />
      {form && <SchemaForm schema={form} values={withDefaults(form, values)} onChange={setValues} problems={problems} />}
      <div className={classes.foot}>
        <Button size="sm" leftSection={<CheckIcon />} loading={answering.isPending} onClick={() => answering.mutate(true)}>
          {form ? "Send" : "Approve"}
        </Button>
        {canDeny && (
          <Button size="sm" variant="default" leftSection={<CrossIcon />} disabled={answering.isPending} onClick={() => answering.mutate(false)}>
            Reject
          </Button>
        )}
        <span className={classes.otherwise} dir="auto">
          {defaultWords(interrupt, now)}
        </span>
        {answering.error && (
          <span className={classes.reason} role="alert">
            {isTooLate(answering.error) ? "Somebody else was faster." : reasonOf(answering.error)}
          </span>
        )}
      </div>
    </article>
  );
}
