/** A new task of a flow: a form of what the flow reads of its parameters. */
import { Button, JsonInput, Modal, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useMemo, useState } from "react";
import { answerOf, reasonOf } from "../api";
import { type FlowDetailView, startTask } from "../client";
import { SchemaForm, type Values } from "../form/SchemaForm";
import { fieldsOf } from "../form/schema";
import { objectOf } from "./graph";
import { parameterSchema } from "./parameters";
import classes from "./StartTask.module.css";

interface Props {
  /** As it is now. The form is made once, and starts the version that it was made from. */
  flow: FlowDetailView;
  version: number;
  onClose: () => void;
}

export function StartTask({ flow: now, version: versionNow, onClose }: Props) {
  const navigate = useNavigate();
  const [{ flow, version }] = useState({ flow: now, version: versionNow });
  const schema = useMemo(() => parameterSchema(flow.definition), [flow.definition]);
  const [values, setValues] = useState<Values>({});
  const [more, setMore] = useState("");
  const [key, setKey] = useState("");
  const others = parsedObject(more);
  const starting = useMutation({
    mutationFn: () => {
      const params = { ...others, ...values };
      const body = { params, version, ...(key.trim() === "" ? {} : { key: key.trim() }) };
      return answerOf(startTask({ path: { name: flow.name }, body }));
    },
    onSuccess: (task) => {
      onClose();
      void navigate({ to: "/tasks/$taskId", params: { taskId: task.id } });
    },
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    starting.mutate();
  }
  const hasFields = fieldsOf(schema).length > 0;
  return (
    <Modal opened onClose={onClose} title={`Start ${flow.name}`} size="lg">
      <form className={classes.form} onSubmit={submit}>
        {hasFields ? (
          <>
            <p className={classes.hint}>What the flow reads. A number, true, false or JSON is taken as such, anything else as text.</p>
            <SchemaForm schema={schema} values={values} onChange={setValues} />
          </>
        ) : (
          <p className={classes.hint}>Nothing in the definition reads a parameter. What its services read goes below.</p>
        )}
        <JsonInput
          label="Further parameters"
          description="A JSON object, for services that read parameters themselves."
          value={more}
          onChange={setMore}
          error={others === null ? "This is not a JSON object yet." : null}
          autosize
          minRows={2}
          maxRows={8}
        />
        <TextInput
          label="Key"
          description="One task at a time works on a key. Without one, the task stands alone."
          value={key}
          maxLength={255}
          onChange={(event) => setKey(event.currentTarget.value)}
        />
        {version !== versionNow && (
          <p className={classes.hint} role="status">
            Version {versionNow} was published meanwhile. This form starts version {version}; open it again for the other.
          </p>
        )}
        {starting.error && (
          <p className={classes.reason} role="alert">
            {reasonOf(starting.error)}
          </p>
        )}
        <div className={classes.foot}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={starting.isPending} disabled={others === null}>
            Start
          </Button>
        </div>
      </form>
    </Modal>
  );
}

/** Null: it is none, or not yet. */
function parsedObject(text: string): Values | null {
  if (text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? objectOf(value) : null;
  } catch {
    return null;
  }
}
