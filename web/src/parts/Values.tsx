/** A document as names and values; what is no object, or has too much in it, as it is. */
import { isHidden, labelOf } from "../form/schema";
import { Json } from "./Json";
import classes from "./Values.module.css";

const VALUE_COUNT_MAX = 40;
const TEXT_LENGTH_MAX = 400;

export function Values({ value, label }: { value: unknown; label: string }) {
  const values = entriesOf(value);
  if (values === null) return <Json value={value} label={label} />;
  if (values.length === 0) return <p className={classes.none}>None.</p>;
  return (
    <div role="group" aria-label={label}>
      <dl className={classes.values}>
        {values.map(([name, text]) => (
          <div key={name}>
            <dt dir="auto">{labelOf(name)}</dt>
            <dd dir="auto">{text}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** Null: it is better shown whole. */
function entriesOf(value: unknown): [string, string][] | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const entries = Object.entries(value).map(([name, one]): [string, string] => [name, words(one)]);
  const isSmall = entries.length <= VALUE_COUNT_MAX && entries.every(([, text]) => text.length <= TEXT_LENGTH_MAX);
  return isSmall ? entries : null;
}

function words(value: unknown): string {
  if (value === null) return "—";
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return value.toLocaleString("en", { maximumFractionDigits: 6 });
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join(", ");
  if (isHidden(value)) return "set";
  return JSON.stringify(value);
}
