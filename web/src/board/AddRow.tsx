import { Alert, Button, Modal, Select, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { reasonOf, Refusal } from "../api";
import { SchemaForm, type Values } from "../form/SchemaForm";
import { withDefaults } from "../form/schema";
import { useJobs } from "../jobs";
import { add } from "./actions";
import classes from "./AddRow.module.css";

export function AddRow({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  return (
    <Modal opened={isOpen} onClose={onClose} title="Add a row" size="lg">
      <AddForm onDone={onClose} />
    </Modal>
  );
}

function AddForm({ onDone }: { onDone: () => void }) {
  const jobs = useJobs();
  const names = [...jobs.keys()];
  const [key, setKey] = useState("");
  const [name, setName] = useState<string | null>(names.length === 1 ? (names[0] ?? null) : null);
  const [values, setValues] = useState<Values>({});
  const job = name === null ? undefined : jobs.get(name);
  const adding = useMutation({
    mutationFn: async () => {
      await add(key.trim(), name ?? "", job ? withDefaults(job.parameters, values) : values);
    },
    onSuccess: onDone,
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    adding.mutate();
  }
  return (
    <form className={classes.form} onSubmit={submit}>
      <div className={classes.identity}>
        <TextInput
          label="Key"
          description="What must be worked on by one run at a time: an account, a conversation, a tenant."
          value={key}
          onChange={(event) => setKey(event.currentTarget.value)}
          maxLength={255}
          data-autofocus
          withAsterisk
        />
        <Select
          label="Job"
          description="What works on it."
          data={names}
          value={name}
          onChange={(chosen) => {
            setName(chosen);
            setValues({});
          }}
          withAsterisk
        />
      </div>
      {job && <SchemaForm schema={job.parameters} values={withDefaults(job.parameters, values)} onChange={setValues} />}
      {adding.error && (
        <Alert color="red" variant="light">
          {isThere(adding.error) ? `There is a row for ${key.trim()} already.` : reasonOf(adding.error)}
        </Alert>
      )}
      <div className={classes.foot}>
        <Button variant="default" onClick={onDone}>
          Cancel
        </Button>
        <Button type="submit" disabled={key.trim() === "" || name === null} loading={adding.isPending}>
          Add
        </Button>
      </div>
    </form>
  );
}

function isThere(error: unknown): boolean {
  return error instanceof Refusal && error.status === 412;
}
