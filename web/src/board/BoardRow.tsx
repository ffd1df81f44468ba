import { UnstyledButton } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { memo, useId } from "react";
import type { Values } from "../form/SchemaForm";
import { fieldsOf, type Schema } from "../form/schema";
import { live, useLive } from "../live";
import { useJobs } from "../jobs";
import { Figures } from "../parts/Figures";
import { ChevronIcon, LockIcon } from "../parts/icons";
import { Pill } from "../parts/Pill";
import { reasonOfEnd } from "../runs/reasons";
import type { LiveRun } from "../stream/model";
import { ago, length, useNow } from "../time";
import classes from "./BoardRow.module.css";
import { note, useNote } from "./notes";
import { RowButtons } from "./RowButtons";
import { RowForm } from "./RowForm";
import { type Row, useRow } from "./rows";
import { RowWhy } from "./RowWhy";

/** Drawn anew only for what changes of it, and not whenever the list is scrolled. */
export const BoardRow = memo(function BoardRow({ rowKey }: { rowKey: string }) {
  const row = useRow(rowKey);
  const jobs = useJobs();
  const { isOpen } = useNote(rowKey);
  const region = useId();
  return (
    <article className={classes.row} aria-label={rowKey} data-row={rowKey} data-testid="row">
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
            {row.isKeyless ? <KeylessName row={row} /> : rowKey}
          </div>
          <div className={classes.summary} dir="auto">
            {row.isLocked && (
              <span className={classes.lock} title="Locked while the run is active">
                <LockIcon size={12} />
                <span className="unseen">Locked while the run is active.</span>
              </span>
            )}
            {row.isTask && row.run ? (
              <Link to="/tasks/$taskId" params={{ taskId: row.run.id }}>
                Task of a flow
              </Link>
            ) : (
              row.isKeyless || row.job
            )}
            <Summary values={row.values} schema={jobs.get(row.job ?? "")?.parameters} />
          </div>
        </div>
        <div className={classes.status}>
          <Pill run={row.run} />
          {row.run && <When run={row.run} />}
        </div>
        <div className={classes.figures}>
          {row.figures && <Figures run={row.figures} />}
          {row.run && row.isLocked && <RowWhy run={row.run} />}
        </div>
        <RowButtons row={row} />
      </div>
      <Reason row={row} />
      {isOpen && (
        <div id={region} className={classes.form}>
          <RowForm row={row} />
        </div>
      )}
    </article>
  );
});

/** The name of a run without a key: its job, and enough of its id to be distinct. */
function KeylessName({ row }: { row: Row }) {
  const name = row.isTask ? "Task" : (row.job ?? "Run");
  return (
    <Link to="/runs/$runId" params={{ runId: row.key }}>
      {name} <span className={classes.id}>{row.key.slice(-8)}</span>
    </Link>
  );
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

/** Why the last thing was refused, until something else happens; or why the last run ended. */
function Reason({ row }: { row: Row }) {
  const { reason: told, reasonOf, existing } = useNote(row.key);
  const reason = reasonOf === (row.run?.id ?? null) ? told : null;
  const ending = row.run && !row.isLocked ? reasonOfEnd(row.run) : null;
  const shown = reason ?? ending;
  if (shown === null || existing !== null) return null;
  return (
    <p className={classes.reason} role={reason === null ? undefined : "alert"} data-testid="reason" dir="auto">
      {shown}{" "}
      {reason === null && row.run && (
        <Link to="/runs/$runId" params={{ runId: row.run.id }}>
          See the run
        </Link>
      )}
    </p>
  );
}
