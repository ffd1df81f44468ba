/**
 * How a question is shown. A job may ask with any document. `title` (or `question`, `tool`) is its
 * headline; a JSON Schema under `schema` makes a form of the answer; the rest is shown as it is.
 */
import type { Schema } from "../form/schema";
import { labelOf } from "../form/schema";

export interface Shown {
  title: string;
  details: [string, string][];
  schema: Schema | null;
}

const HEADLINES = ["title", "question", "message", "tool"] as const;
const DETAIL_LENGTH_MAX = 500;

export function shownOf(question: unknown): Shown {
  if (typeof question === "string") return { title: question, details: [], schema: null };
  if (typeof question !== "object" || question === null || Array.isArray(question)) {
    return { title: "A run asks for a decision", details: [["Asked", briefly(question)]], schema: null };
  }
  const asked = question as Record<string, unknown>;
  const headline = HEADLINES.find((name) => typeof asked[name] === "string" && asked[name] !== "");
  const schema = isFormSchema(asked.schema) ? asked.schema : null;
  const details = Object.entries(asked)
    .filter(([name]) => name !== headline && !(name === "schema" && schema))
    .map(([name, value]): [string, string] => [labelOf(name), briefly(value)]);
  return { title: headline ? headlineWords(headline, asked[headline] as string) : "A run asks for a decision", details, schema };
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
