import { Checkbox, JsonInput, MultiSelect, NumberInput, PasswordInput, Select, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { type Field, fieldsOf, isHidden, type Schema } from "./schema";
import classes from "./SchemaForm.module.css";

export type Values = Record<string, unknown>;

interface Props {
  schema: Schema;
  values: Values;
  onChange: (values: Values) => void;
  /** By the name of the field. */
  problems?: Record<string, string>;
  isLocked?: boolean;
  /** Told the label of a field that cannot be read yet, and null when it can. */
  onFaulty?: (label: string | null) => void;
}

export function SchemaForm({ schema, values, onChange, problems = {}, isLocked = false, onFaulty }: Props) {
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
          onFaulty={onFaulty}
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
  onFaulty: ((label: string | null) => void) | undefined;
  /** Undefined: it is left out. */
  onChange: (value: unknown) => void;
}

function FieldInput({ field, value, problem, isLocked, onFaulty, onChange }: FieldProps) {
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
      // What has several lines already keeps them.
      if (textOf(value).includes("\n")) return <LinesInput {...common} value={textOf(value)} onChange={(text) => onChange(text || nothing)} />;
      return <TextInput {...common} value={textOf(value)} onChange={(event) => onChange(event.currentTarget.value || nothing)} />;
    case "lines":
      return <LinesInput {...common} value={textOf(value)} onChange={(text) => onChange(text || nothing)} />;
    case "secret":
      return <PasswordInput {...common} value={textOf(value)} placeholder={isHidden(value) ? "set" : ""} autoComplete="off" onChange={(event) => onChange(event.currentTarget.value || nothing)} />;
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
      return <TagsInput {...common} value={textsOf(value)} onChange={onChange} splitChars={[","]} />;
    case "anything":
      return <AnyField {...common} value={value} onChange={onChange} />;
    case "json":
      return <JsonField {...common} value={value} onChange={onChange} onFaulty={onFaulty} />;
  }
}

interface LinesProps {
  label: string;
  description: string | null;
  error: string | null;
  disabled: boolean;
  value: string;
  onChange: (text: string) => void;
}

function LinesInput({ onChange, ...common }: LinesProps) {
  return <Textarea {...common} autosize minRows={2} maxRows={10} onChange={(event) => onChange(event.currentTarget.value)} />;
}

type AnyProps = Omit<FieldProps, "field" | "problem" | "isLocked" | "onFaulty"> & {
  label: string;
  description: string | null;
  error: string | null;
  disabled: boolean;
};

const NOT_JSON = "This is not JSON yet.";

/** Anything else is typed as JSON, and taken over whenever it is whole. */
function JsonField({ value, onChange, onFaulty, error, ...common }: AnyProps & Pick<FieldProps, "onFaulty">) {
  const [draft, setDraft] = useState<string | null>(null);
  const shown = draft ?? (value === undefined ? "" : JSON.stringify(value, null, 2));
  const parsed = draft === null ? { value } : parse(draft);
  const isFaulty = parsed === null;
  const area = useRef<HTMLTextAreaElement>(null);
  // The form that it stands in is not sent while it is no JSON.
  useEffect(() => area.current?.setCustomValidity(isFaulty ? NOT_JSON : ""), [isFaulty]);
  const tell = useRef(onFaulty);
  tell.current = onFaulty;
  useEffect(() => {
    if (!isFaulty) return;
    tell.current?.(common.label);
    return () => tell.current?.(null);
  }, [isFaulty, common.label]);
  return (
    <JsonInput
      ref={area}
      {...common}
      value={shown}
      error={error ?? (isFaulty ? NOT_JSON : null)}
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
function AnyField({ value, onChange, ...common }: AnyProps) {
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
