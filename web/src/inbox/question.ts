/**
 * How a question is shown. A job may ask with any document. `title` (or `question`, `tool`) is its
 * headline; the rest is shown as it is. What the answer may be is the question's JSON Schema, or one
 * that the document itself has under `schema`.
 */
import type { Issue } from "../api";
import type { InterruptView } from "../client";
import type { Values } from "../form/SchemaForm";
import type { Schema } from "../form/schema";
import { labelOf } from "../form/schema";
import { length } from "../time";

export interface Shown {
  title: string;
  details: [string, string][];
  /** The fields of the form; null: it is a matter of yes or no. */
  form: Schema | null;
  /** Whether a plain no is an answer that fits. */
  canDeny: boolean;
  /** What is sent besides `call_id`. */
  answer: (approved: boolean, values: Values) => Values;
}

const HEADLINES = ["title", "question", "message", "tool"] as const;
const NO_TITLE = "A run asks for a decision";
const DETAIL_LENGTH_MAX = 500;
/** For a schema that names no fields. */
const ANYTHING: Schema = { properties: { answer: { title: "Answer, a JSON object", default: {} } } };

export function shownOf(interrupt: Pick<InterruptView, "question" | "schema">): Shown {
  const { title, details, schema } = headed(interrupt.question);
  if (interrupt.schema) return { title, details, ...bound(interrupt.schema) };
  return { title, details, form: schema, canDeny: true, answer: (approved, values) => ({ ...(approved ? values : {}), approved }) };
}

/** The server holds the answer to the schema: its fields are sent, and nothing else. */
function bound(schema: Schema): Pick<Shown, "form" | "canDeny" | "answer"> {
  const { approved: yes, ...others } = (schema.properties ?? {}) as Record<string, Schema>;
  if (!yes && Object.keys(others).length === 0) return { form: ANYTHING, canDeny: false, answer: (_, { answer }) => answer as Values };
  const isDecision = yes !== undefined;
  const form = isDecision && Object.keys(others).length === 0 ? null : { ...schema, properties: others };
  return { form, canDeny: isDecision, answer: (approved, values) => (isDecision ? { ...values, approved } : values) };
}

function headed(question: unknown): { title: string; details: [string, string][]; schema: Schema | null } {
  if (typeof question === "string") return { title: question, details: [], schema: null };
  if (typeof question !== "object" || question === null || Array.isArray(question)) {
    return { title: NO_TITLE, details: [["Asked", briefly(question)]], schema: null };
  }
  const asked = question as Record<string, unknown>;
  const headline = HEADLINES.find((name) => typeof asked[name] === "string" && asked[name] !== "");
  const schema = isFormSchema(asked.schema) ? asked.schema : null;
  const details = Object.entries(asked)
    .filter(([name]) => name !== headline && !(name === "schema" && schema))
    .map(([name, value]): [string, string] => [labelOf(name), briefly(value)]);
  return { title: headline ? headlineWords(headline, asked[headline] as string) : NO_TITLE, details, schema };
}

/** What happens when nobody answers. */
export function defaultWords({ answer_deadline_at, default: otherwise }: Pick<InterruptView, "answer_deadline_at" | "default">, now: number): string {
  const left_ms = Date.parse(answer_deadline_at) - now;
  const when = left_ms <= 0 ? "from now on" : `in ${left_ms < 60_000 ? "less than a minute" : length(left_ms).replace(/ \d\d s$/, "")}`;
  const isNo = otherwise === null || otherwise === undefined;
  return isNo ? `No answer counts as a no ${when}.` : `Without an answer it goes on ${when} with ${briefly(otherwise)}.`;
}

/** The issues of a refused answer, by the fields that are to blame. */
export function problemsOf(issues: Issue[]): Record<string, string> {
  const found = issues.map(({ path, problem }) => [path.replace(/^answer\.?/, "").split(/[.[]/)[0], problem]);
  return Object.fromEntries(found.filter(([field]) => field)) as Record<string, string>;
}

function headlineWords(name: string, value: string): string {
  return name === "tool" ? `May it use “${value}”?` : value;
}

function isFormSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && "properties" in value;
}

export function briefly(value: unknown): string {
  const whole = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return whole.length <= DETAIL_LENGTH_MAX ? whole : `${whole.slice(0, DETAIL_LENGTH_MAX)}…`;
}
