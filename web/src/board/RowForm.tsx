import { Button } from "@mantine/core";
import { SchemaForm } from "../form/SchemaForm";
import { withDefaults } from "../form/schema";
import { useJobs, useJobsKnown } from "../jobs";
import { useLive } from "../live";
import { Json } from "../parts/Json";
import { save } from "./actions";
import { CHANGED, forgetDraft, note, noteDraft, revisionOf, useNote } from "./notes";
import classes from "./RowForm.module.css";
import type { Row } from "./rows";

export function RowForm({ row }: { row: Row }) {
  const { draft, base, problems, isBusy } = useNote(row.key);
  const revision = useLive(() => revisionOf(row.key));
  const job = useJobs().get(row.job ?? "");
  const { isKnown } = useJobsKnown();
  if (!job) {
    return (
      <>
        {isKnown && <p className={classes.hint}>This server does not know the job, so its parameters are shown as they are.</p>}
        <Json value={row.values} label="Parameters" />
      </>
    );
  }
  return (
    <>
      <SchemaForm
        schema={job.parameters}
        values={withDefaults(job.parameters, row.values)}
        onChange={(values) => noteDraft(row.key, values)}
        problems={problems}
        isLocked={row.isLocked}
        onFaulty={(faulty) => note(row.key, { faulty })}
      />
      <div className={classes.foot}>
        {row.isLocked && <span className={classes.hint}>Locked while the run is active. Cancel it to change anything.</span>}
        {!row.isLocked && draft !== null && (
          <>
            {revision === base && (
              <Button size="xs" loading={isBusy} onClick={() => void save(row.key, job.name)}>
                Save
              </Button>
            )}
            <Button size="xs" variant="subtle" color="gray" onClick={() => forgetDraft(row.key)}>
              {revision === base ? "Undo" : "Show theirs"}
            </Button>
            <span className={classes.hint}>{revision === base ? "Start and Continue save it too." : CHANGED}</span>
          </>
        )}
      </div>
    </>
  );
}
