import { Button } from "@mantine/core";
import { SchemaForm } from "../form/SchemaForm";
import { withDefaults } from "../form/schema";
import { useJobs } from "../jobs";
import { Json } from "../parts/Json";
import { save } from "./actions";
import type { Row } from "./BoardRow";
import { note, useNote } from "./notes";
import classes from "./RowForm.module.css";

export function RowForm({ row }: { row: Row }) {
  const { draft, problems, isBusy } = useNote(row.key);
  const job = useJobs().get(row.job ?? "");
  if (!job) {
    return (
      <>
        <p className={classes.hint}>This server does not know the job, so its parameters are shown as they are.</p>
        <Json value={row.values} label="Parameters" />
      </>
    );
  }
  return (
    <>
      <SchemaForm
        schema={job.parameters}
        values={withDefaults(job.parameters, row.values)}
        onChange={(values) => note(row.key, { draft: values, problems: {}, reason: null })}
        problems={problems}
        isLocked={row.isLocked}
        onFaulty={(faulty) => note(row.key, { faulty })}
      />
      <div className={classes.foot}>
        {row.isLocked && <span className={classes.hint}>Locked while the run is active. Cancel it to change anything.</span>}
        {!row.isLocked && draft !== null && (
          <>
            <Button size="xs" loading={isBusy} onClick={() => void save(row.key, job.name)}>
              Save
            </Button>
            <Button size="xs" variant="subtle" color="gray" onClick={() => note(row.key, { draft: null, problems: {}, reason: null })}>
              Undo
            </Button>
            <span className={classes.hint}>Start and Continue save it too.</span>
          </>
        )}
      </div>
    </>
  );
}
