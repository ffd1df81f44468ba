/** A document as text. Whatever it holds, it is never markup. */
import classes from "./Json.module.css";
import { Whole } from "./Whole";

const TEXT_LENGTH_MAX = 20_000;

export function Json({ value, label }: { value: unknown; label: string }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const isCut = text.length > TEXT_LENGTH_MAX;
  return (
    <>
      {/* It scrolls, so it must be reachable by the keyboard. */}
      <pre className={classes.json} tabIndex={0} aria-label={label} role="region">
        {isCut ? text.slice(0, TEXT_LENGTH_MAX) : text}
      </pre>
      {isCut && (
        <p className={classes.cut}>
          The first {TEXT_LENGTH_MAX.toLocaleString("en")} characters of {text.length.toLocaleString("en")}. <Whole text={() => text} name={label} />
        </p>
      )}
    </>
  );
}
