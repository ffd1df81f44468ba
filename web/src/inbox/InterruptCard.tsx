import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { answerOf, queries, reasonOf, Refusal } from "../api";
import { type InterruptView, resume } from "../client";
import { SchemaForm, type Values } from "../form/SchemaForm";
import { withDefaults } from "../form/schema";
import { CheckIcon, CrossIcon } from "../parts/icons";
import { ago, useNow } from "../time";
import classes from "./InterruptCard.module.css";
import { shownOf } from "./question";

/** A question to a person. The first answer stands; who comes later is told so. */
export function InterruptCard({ interrupt, isInRun = false }: { interrupt: InterruptView; isInRun?: boolean }) {
  const { run_id, call_id, key, job, asked_at } = interrupt;
  const { title, details, schema } = shownOf(interrupt.question);
  const [values, setValues] = useState<Values>({});
  const now = useNow();
  const answering = useMutation({
    mutationFn: (approved: boolean) => {
      const answer = approved && schema ? withDefaults(schema, values) : {};
      return answerOf(resume({ path: { run_id }, body: { ...answer, call_id, approved } }));
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ["interrupts"] }),
  });
  return (
    <article className={classes.card} aria-label={title} data-testid="question">
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
      {details.length > 0 && (
        <dl className={classes.details}>
          {details.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd dir="auto">{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {schema && <SchemaForm schema={schema} values={withDefaults(schema, values)} onChange={setValues} />}
      <div className={classes.foot}>
        <Button size="sm" leftSection={<CheckIcon />} loading={answering.isPending} onClick={() => answering.mutate(true)}>
          {schema ? "Send" : "Approve"}
        </Button>
        <Button size="sm" variant="default" leftSection={<CrossIcon />} disabled={answering.isPending} onClick={() => answering.mutate(false)}>
          Reject
        </Button>
        {answering.error && (
          <span className={classes.reason} role="alert">
            {answering.error instanceof Refusal && answering.error.code === "stale" ? "Somebody else was faster." : reasonOf(answering.error)}
          </span>
        )}
      </div>
    </article>
  );
}
