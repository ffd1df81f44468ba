import { UnstyledButton } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import { memo, useId } from "react";
import { answerOf } from "../api";
import { getRun } from "../client";
import type { Values } from "../form/SchemaForm";
import { fieldsOf, type Schema } from "../form/schema";
import { live, useLive } from "../live";
import { useJobs } from "../jobs";
import { Figures } from "../parts/Figures";
import { ChevronIcon, LockIcon } from "../parts/icons";
import { Pill } from "../parts/Pill";
import { useInterrupts } from "../inbox/interrupts";
import { reasonOfEnd } from "../runs/reasons";
import { isActive, type LiveRun } from "../stream/model";
import { FLOW_JOB } from "../tasks/words";
import { ago, length, useNow } from "../time";
import { start } from "./actions";
import classes from "./BoardRow.module.css";
import { ExistingOutput } from "./ExistingOutput";
import { note, useNote } from "./notes";
import { RowButtons } from "./RowButtons";
import { RowForm } from "./RowForm";

export interface Row {
  key: string;
  job: string | null;
  run: LiveRun | undefined;
  isLocked: boolean;
  isSaved: boolean;
  values: Values;
}

/** Drawn anew only for what changes of it, and not whenever the list is scrolled. */
export const BoardRow = memo(function BoardRow({ rowKey }: { rowKey: string }) {
  const row = useRow(rowKey);
  const jobs = useJobs();
  const { isOpen, existing } = useNote(rowKey);
  const region = useId();
  return (
    <article className={classes.row} aria-label={rowKey} data-testid="row">
      <div className={classes.line}>
        <UnstyledButton
          className={classes.opener}
          aria-expanded={isOpen}
          aria-controls={region}
          aria-label={`Parameters of ${rowKey}`}
          onClick={() => note(rowKey, { isOpen: !isOpen })}
        >
          <ChevronIcon />
        </UnstyledButton>
        <div className={classes.what}>
          <div className={classes.key} dir="auto" title={rowKey}>
            {rowKey}
          </div>
          <div className={classes.summary} dir="auto">
            {row.isLocked && (
              <span className={classes.lock} title="Locked while the run is active">
                <LockIcon size={12} />
                <span className="unseen">Locked while the run is active.</span>
              </span>
            )}
            {row.job}
            <Summary values={row.values} schema={jobs.get(row.job ?? "")?.parameters} />
          </div>
        </div>
        <div className={classes.status}>
          <Pill run={row.run} />
          {row.run && <When run={row.run} />}
        </div>
        <div className={classes.figures}>
          {row.run && row.run.state !== "Idle" && <Figures run={row.run} />}
          {row.run?.is_waiting && row.isLocked && <Awaited run={row.run} />}
        </div>
        <RowButtons row={row} />
      </div>
      <Reason row={row} />
      {isOpen && (
        <div id={region} className={classes.form}>
          <RowForm row={row} />
        </div>
      )}
      {existing !== null && row.job !== null && <Existing row={row} job={row.job} told={existing} />}
    </article>
  );
});

function Existing({ row, job, told }: { row: Row; job: string; told: string }) {
  const { isBusy } = useNote(row.key);
  return (
    <ExistingOutput
      rowKey={row.key}
      told={told}
      isBusy={isBusy}
      onStart={(existing) => void start(row.key, job, "start", existing)}
      onContinue={() => void start(row.key, job, "continue")}
      onClose={() => note(row.key, { existing: null })}
    />
  );
}

function useRow(key: string): Row {
  const saved = useLive((live) => live.keys.get(key));
  const run = useLive((live) => live.runOf(key));
  const isLocked = run !== undefined && isActive(run.status);
  const { draft, isOpen } = useNote(key);
  // While it is locked, an open row shows what the run was given, whatever is saved.
  const { data: given } = useQuery({
    queryKey: ["given", run?.id],
    queryFn: () => answerOf(getRun({ path: { run_id: run?.id ?? "" } })),
    enabled: isLocked && (isOpen || saved === undefined),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const job = (isLocked ? (run.job ?? given?.job) : null) ?? saved?.job ?? run?.job ?? null;
  const values = ((isLocked ? given?.params : draft) ?? saved?.params ?? {}) as Values;
  return { key, job, run, isLocked, isSaved: saved !== undefined, values };
}

/** The first parameter that says something, mostly the target: rows are told apart by it. */
function Summary({ values, schema }: { values: Values; schema: Schema | undefined }) {
  const fields = fieldsOf(schema ?? {}).filter((field) => field.kind !== "secret");
  const texts = fields.map((field) => values[field.name]).map((value) => (Array.isArray(value) ? value.join(" ") : value));
  const shown = texts.find((text) => typeof text === "string" && text !== "") as string | undefined;
  if (shown === undefined) return null;
  return (
    <span className={classes.value} title={shown}>
      {shown}
    </span>
  );
}

/** What a run waits for that stands on another screen. */
function Awaited({ run }: { run: LiveRun }) {
  const isAsking = useInterrupts().data?.some((one) => one.run_id === run.id) === true;
  if (isAsking) return <Link className={classes.hint ?? ""} to="/inbox">It asks a question</Link>;
  if (run.job !== FLOW_JOB) return null;
  return (
    <Link className={classes.hint ?? ""} to="/tasks/$taskId" params={{ taskId: run.id }}>
      See what the task waits for
    </Link>
  );
}

function When({ run }: { run: LiveRun }) {
  const now = useNow();
  const place = useLive(() => live.placeOf(run));
  return (
    <span className={classes.when} data-testid="when">
      {whenWords(run, now, place)}
    </span>
  );
}

function whenWords(run: LiveRun, now: number, place: number | null): string {
  if (run.status === "queued") return place === null ? "behind another run of its key" : `position ${place}`;
  if (run.started_at === null) return "";
  if (run.ended_at === null) return `for ${length(now - Date.parse(run.started_at))}`;
  const took = length(Date.parse(run.ended_at) - Date.parse(run.started_at));
  return `${ago(run.ended_at, now)}, took ${took}`;
}

function Reason({ row }: { row: Row }) {
  const { reason } = useNote(row.key);
  const ending = row.run ? reasonOfEnd(row.run) : null;
  const told = reason ?? (row.isLocked ? null : ending);
  if (told === null) return null;
  return (
    <p className={classes.reason} role={reason === null ? undefined : "alert"} data-testid="reason" dir="auto">
      {told}{" "}
      {reason === null && row.run && (
        <Link to="/runs/$runId" params={{ runId: row.run.id }}>
          See the run
        </Link>
      )}
    </p>
  );
}
