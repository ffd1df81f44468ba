import classes from "./InterruptCard.module.css";

/** What is to be known before one answers. */
export function Details({ of }: { of: [string, string][] }) {
  if (of.length === 0) return null;
  return (
    <dl className={classes.details}>
      {of.map(([name, value]) => (
        <div key={name}>
          <dt dir="auto">{name}</dt>
          <dd dir="auto">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
