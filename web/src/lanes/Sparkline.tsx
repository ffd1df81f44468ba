/** The depth of a lane's queue over time, small. */
import { length } from "../time";
import classes from "./Sparkline.module.css";
import { useDepth } from "./depth";

const WIDTH = 240;
const HEIGHT = 36;

export function Sparkline({ lane }: { lane: string }) {
  const depth = useDepth(lane);
  const counts = depth?.counts ?? [];
  const most = Math.max(0, ...counts);
  const time = length(counts.length * (depth?.span_ms ?? 0));
  if (counts.length < 2) return null;
  const step = WIDTH / (counts.length - 1);
  const points = counts.map((count, index) => `${(index * step).toFixed(1)},${yOf(count, most)}`).join(" ");
  const words = most === 0 ? `Nobody has waited here for ${time}` : `At most ${most.toLocaleString("en")} in line within ${time}`;
  return (
    <figure className={classes.figure} data-testid="depth" data-most={most}>
      <svg className={classes.line} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={words}>
        <polygon points={`0,${HEIGHT} ${points} ${WIDTH},${HEIGHT}`} />
        <polyline points={points} />
      </svg>
      <figcaption>{words}</figcaption>
    </figure>
  );
}

function yOf(count: number, most: number): string {
  return (HEIGHT - 2 - (most === 0 ? 0 : (count / most) * (HEIGHT - 4))).toFixed(1);
}
