/** A run's own figures: counters as they are, and how fast the first of them grows. */
import type { LiveRun } from "../stream/model";
import classes from "./Figures.module.css";

const FIGURE_COUNT_MAX = 6;
const TEXT_LENGTH_MAX = 24;

export function Figures({ run }: { run: Pick<LiveRun, "progress" | "rate" | "status"> }) {
  const shown = figuresOf(run.progress).filter(([name]) => name !== run.rate?.name || !isStated(name));
  if (shown.length === 0) return null;
  const isMoving = run.status === "running";
  return (
    <dl className={classes.figures} data-testid="figures">
      {shown.slice(0, FIGURE_COUNT_MAX).map(([name, value]) => (
        <div key={name} className={classes.figure}>
          <dt>{label(name)}</dt>
          <dd>{value}</dd>
        </div>
      ))}
      {isMoving && run.rate && (
        <div className={classes.figure}>
          <dt>{isStated(run.rate.name) ? "rate" : `${label(run.rate.name)} rate`}</dt>
          <dd>{rate(run.rate.name, run.rate.per_s)}</dd>
        </div>
      )}
    </dl>
  );
}

function isStated(name: string): boolean {
  return name === "rate" || name.endsWith("_per_s") || name.endsWith("_rate");
}

function figuresOf(progress: unknown): [string, string][] {
  if (typeof progress !== "object" || progress === null) return [];
  const figures: [string, string][] = [];
  for (const [name, value] of Object.entries(progress)) {
    if (typeof value === "number") figures.push([name, number(value)]);
    else if (typeof value === "string") figures.push([name, cut(value)]);
    else if (typeof value === "boolean") figures.push([name, value ? "yes" : "no"]);
  }
  return figures;
}

export function label(name: string): string {
  return name.replaceAll("_", " ");
}

function number(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 2 });
}

function cut(text: string): string {
  return text.length <= TEXT_LENGTH_MAX ? text : `${text.slice(0, TEXT_LENGTH_MAX - 1)}…`;
}

function rate(name: string, per_s: number): string {
  if (!name.startsWith("bytes")) return `${number(Math.round(per_s * 10) / 10)} /s`;
  const units = ["B/s", "kB/s", "MB/s", "GB/s"];
  let value = per_s;
  let unit = 0;
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${value.toFixed(value < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}
