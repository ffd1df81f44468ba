/** Reads a JSON Schema for what a form needs of it. What it cannot show as a field is JSON text. */
export type Schema = { [name: string]: unknown };

export type Field = {
  name: string;
  label: string;
  description: string | null;
  isRequired: boolean;
  mayBeNull: boolean;
  fallback: unknown;
} & (
  | { kind: "text" | "lines" | "secret" | "flag" | "texts" | "json" | "anything" }
  | { kind: "number"; isWhole: boolean; least: number | null; most: number | null }
  | { kind: "choice" | "choices"; choices: string[] }
);

type Kind = Pick<Field, "kind"> & Partial<Field>;

export function fieldsOf(schema: Schema): Field[] {
  const required = new Set(Array.isArray(schema.required) ? (schema.required as string[]) : []);
  const properties = (schema.properties ?? {}) as Record<string, Schema>;
  return Object.entries(properties).map(([name, given]) => {
    const { found, mayBeNull } = unwrap(given, schema);
    const label = typeof given.title === "string" ? given.title : labelOf(name);
    const description = typeof given.description === "string" ? given.description : null;
    const common = { name, label, description, mayBeNull, isRequired: required.has(name), fallback: given.default };
    return { ...common, ...kindOf(found, schema) } as Field;
  });
}

export function labelOf(name: string): string {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What the form starts with: what is given, else the schema's own defaults. */
export function withDefaults(schema: Schema, given: Record<string, unknown>): Record<string, unknown> {
  const values = { ...given };
  for (const field of fieldsOf(schema)) {
    if (!(field.name in values) && field.fallback !== undefined) values[field.name] = field.fallback;
  }
  return values;
}

/** A secret as the server shows it: that it is set, and no more. */
export function isHidden(value: unknown): boolean {
  return typeof value === "object" && value !== null && (value as { secret?: unknown }).secret === "set";
}

/** Follows references, and takes the null out of a choice of types. */
function unwrap(schema: Schema, root: Schema): { found: Schema; mayBeNull: boolean } {
  if (typeof schema.$ref === "string") return unwrap(referred(schema.$ref, root), root);
  const options = (schema.anyOf ?? schema.oneOf ?? schema.allOf) as Schema[] | undefined;
  if (Array.isArray(options)) {
    const others = options.filter((option) => option.type !== "null");
    const mayBeNull = others.length < options.length;
    const [only] = others;
    if (others.length === 1 && only) return { ...unwrap(only, root), mayBeNull };
    return { found: {}, mayBeNull };
  }
  if (Array.isArray(schema.type) && schema.type.length === 2 && schema.type.includes("null")) {
    const type = schema.type.find((one) => one !== "null");
    return { found: { ...schema, type }, mayBeNull: true };
  }
  return { found: schema, mayBeNull: false };
}

function referred(reference: string, root: Schema): Schema {
  let found: unknown = root;
  for (const part of reference.replace(/^#\//, "").split("/")) {
    found = typeof found === "object" && found !== null ? (found as Schema)[part] : undefined;
  }
  return typeof found === "object" && found !== null ? (found as Schema) : {};
}

function kindOf(schema: Schema, root: Schema): Kind {
  const choices = choicesOf(schema);
  if (choices) return { kind: "choice", choices } as Kind;
  switch (schema.type) {
    case "string":
      return { kind: textKindOf(schema) };
    case "integer":
    case "number":
      return {
        kind: "number",
        isWhole: schema.type === "integer",
        least: numberOr(schema.minimum),
        most: numberOr(schema.maximum),
      } as Kind;
    case "boolean":
      return { kind: "flag" };
    case "array": {
      const items = unwrap((schema.items ?? {}) as Schema, root).found;
      const ofItems = choicesOf(items);
      if (ofItems) return { kind: "choices", choices: ofItems } as Kind;
      return { kind: items.type === "string" ? "texts" : "json" };
    }
    default:
      return { kind: schema.format === "anything" ? "anything" : "json" };
  }
}

function textKindOf(schema: Schema): "text" | "lines" | "secret" {
  if (schema.format === "password" || schema.writeOnly === true) return "secret";
  return schema.format === "textarea" || schema.format === "multiline" || schema.contentMediaType === "text/markdown" ? "lines" : "text";
}

function choicesOf(schema: Schema): string[] | null {
  const values = Array.isArray(schema.enum) ? schema.enum : "const" in schema ? [schema.const] : null;
  return values?.every((value) => typeof value === "string") ? (values as string[]) : null;
}

function numberOr(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
