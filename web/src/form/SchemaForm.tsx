import { Checkbox, JsonInput, MultiSelect, NumberInput, PasswordInput, Select, TagsInput, TextInput } from "@mantine/core";
import { useState } from "react";
import { type Field, fieldsOf, type Schema } from "./schema";
import classes from "./SchemaForm.module.css";

export type Values = Record<string, unknown>;

interface Props {
  schema: Schema;
  values: Values;
  onChange: (values: Values) => void;
  /** By the name of the field. */
  problems?: Record<string, string>;
  isLocked?: boolean;
}

export function SchemaForm({ schema, values, onChange, problems = {}, isLocked = false }: Props) {
  const fields = fieldsOf(schema);
  function change(name: string, value: unknown) {
    const { [name]: _, ...others } = values;
    onChange(value === undefined ? others : { ...values, [name]: value });
  }
  if (fields.length === 0) return <p className={classes.none}>This job takes no parameters.</p>;
  return (
    <div className={classes.form}>
      {fields.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          value={values[field.name]}
          problem={problems[field.name] ?? null}
          isLocked={isLocked}
          onChange={(value) => change(field.name, value)}
        />
      ))}
    </div>
  );
}

interface FieldProps {
  field: Field;
  value: unknown;
  problem: string | null;
  isLocked: boolean;
  /** Undefined: it is left out. */
  onChange: (value: unknown) => void;
}

function FieldInput({ field, value, problem, isLocked, onChange }: FieldProps) {
  const nothing = field.mayBeNull ? null : undefined;
  const common = {
    label: field.label,
    description: field.description,
    error: problem,
    disabled: isLocked,
    size: "sm" as const,
    withAsterisk: field.isRequired,
  };
  switch (field.kind) {
    case "text":
      return <TextInput {...common} value={textOf(value)} onChange={(event) => onChange(event.currentTarget.value || nothing)} />;
    case "secret":
      return <PasswordInput {...common} value={textOf(value)} placeholder={typeof value === "object" && value !== null ? "set" : ""} autoComplete="off" onChange={(event) => onChange(event.currentTarget.value || nothing)} />;
    case "number":
      return (
        <NumberInput
          {...common}
          value={typeof value === "number" ? value : ""}
          allowDecimal={!field.isWhole}
          thousandSeparator=" "
          {...(field.least === null ? {} : { min: field.least })}
          {...(field.most === null ? {} : { max: field.most })}
          onChange={(entered) => onChange(typeof entered === "number" ? entered : nothing)}
        />
      );
    case "flag":
      return (
        <Checkbox
          className={classes.flag}
          label={field.label}
          description={field.description}
          error={problem}
          disabled={isLocked}
          checked={value === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      );
    case "choice":
      return <Select {...common} data={field.choices} value={typeof value === "string" ? value : null} clearable={!field.isRequired} onChange={(chosen) => onChange(chosen ?? nothing)} />;
    case "choices":
      return <MultiSelect {...common} data={field.choices} value={textsOf(value)} onChange={onChange} />;
    case "texts":
      return <TagsInput {...common} value={textsOf(value)} onChange={onChange} splitChars={[",", " "]} />;
    case "anything":
      return <AnyField {...common} value={value} onChange={onChange} />;
    case "json":
      return <JsonField {...common} value={value} onChange={onChange} />;
  }
}

type JsonProps = Omit<FieldProps, "field" | "problem" | "isLocked"> & {
  label: string;
  description: string | null;
  error: string | null;
  disabled: boolean;
};

/** Anything else is typed as JSON, and taken over whenever it is whole. */
function JsonField({ value, onChange, error, ...common }: JsonProps) {
  const [draft, setDraft] = useState<string | null>(null);
  const shown = draft ?? (value === undefined ? "" : JSON.stringify(value, null, 2));
  const parsed = draft === null ? { value } : parse(draft);
  return (
    <JsonInput
      {...common}
      value={shown}
      error={error ?? (parsed === null ? "This is not JSON yet." : null)}
      autosize
      minRows={2}
      maxRows={10}
      onChange={(text) => {
        setDraft(text);
        const entered = parse(text);
        if (entered) onChange(entered.value);
      }}
      onBlur={() => parsed && setDraft(null)}
    />
  );
}

/** JSON if it is that, else text: whoever types a word need not know of quotes. */
function AnyField({ value, onChange, ...common }: JsonProps) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value));
  return (
    <TextInput
      {...common}
      value={text}
      onChange={({ currentTarget: { value: typed } }) => {
        setText(typed);
        const entered = parse(typed);
        onChange(entered === null ? typed : entered.value);
      }}
    />
  );
}

export function parse(text: string): { value: unknown } | null {
  if (text.trim() === "") return { value: undefined };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return null;
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}
