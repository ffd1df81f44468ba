/** The depth of a lane's queue over time, small. */
import { length } from "../time";
import classes from "./Sparkline.module.css";
import { type Count, useDepth } from "./depth";

const WIDTH = 240;
const HEIGHT = 36;

export function Sparkline({ lane }: { lane: string }) {
  const depth = useDepth(lane);
  const counts = depth?.counts ?? [];
  const most = Math.max(0, ...counts.map((count) => count ?? 0));
  if (counts.length < 2 || most === 0) return null;
  const pieces = piecesOf(counts, most);
  const words = `At most ${most.toLocaleString("en")} queued within ${length(counts.length * (depth?.span_ms ?? 0))}`;
  return (
    <figure className={classes.figure} data-testid="depth" data-most={most} data-pieces={pieces.length}>
      <svg className={classes.line} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={words}>
        {pieces.map(({ from, to, points }) => (
          <g key={from}>
            <polygon points={`${from},${HEIGHT} ${points} ${to},${HEIGHT}`} />
            <polyline points={points} />
          </g>
        ))}
      </svg>
      <figcaption>{words}</figcaption>
    </figure>
  );
}

interface Piece {
  from: string;
  to: string;
  points: string;
}

/** A line for each stretch of which anything is known. */
function piecesOf(counts: Count[], most: number): Piece[] {
  const step = WIDTH / (counts.length - 1);
  const pieces: Piece[] = [];
  let isCut = true;
  counts.forEach((count, index) => {
    if (count === null) {
      isCut = true;
      return;
    }
    const x = (index * step).toFixed(1);
    const point = `${x},${yOf(count, most)}`;
    const last = pieces.at(-1);
    if (isCut || last === undefined) pieces.push({ from: x, to: x, points: point });
    else Object.assign(last, { to: x, points: `${last.points} ${point}` });
    isCut = false;
  });
  return pieces;
}

function yOf(count: number, most: number): string {
  return (HEIGHT - 2 - (count / most) * (HEIGHT - 4)).toFixed(1);
}
