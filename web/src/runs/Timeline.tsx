/** What a run did with its time: waiting for its turn, running, waiting for something, ending. */
import type { EventView, HeadwayEventView, RunView } from "../client";
import { clock, length, useNow } from "../time";
import classes from "./Timeline.module.css";

type Phase = "queued" | "running" | "waiting" | "cancelling";

interface Span {
  phase: Phase;
  from_ms: number;
  to_ms: number;
}

const SHOWN_MS_MIN = 50;
const WORDS: Record<Phase, string> = {
  queued: "queued",
  running: "running",
  waiting: "waiting",
  cancelling: "cancelling",
};

export function Timeline({ run, events }: { run: RunView; events: EventView[] }) {
  const now = useNow();
  const end_ms = run.ended_at === null ? Math.max(now, Date.parse(run.queued_at)) : Date.parse(run.ended_at);
  const spans = spansOf(run, events, end_ms);
  const begin_ms = Date.parse(run.queued_at);
  const whole_ms = Math.max(1, end_ms - begin_ms);
  const sums = Object.entries(WORDS).map(([phase, word]) => {
    const sum_ms = spans.filter((span) => span.phase === phase).reduce((sum, span) => sum + span.to_ms - span.from_ms, 0);
    return { phase, word, sum_ms };
  });
  return (
    <section aria-label="Timeline" className={classes.timeline}>
      <div className={classes.bar} aria-hidden="true">
        {spans.map((span) => (
          <span
            key={span.from_ms}
            className={classes.span}
            data-phase={span.phase}
            title={`${WORDS[span.phase]}: ${length(span.to_ms - span.from_ms)}`}
            style={{
              left: `${((span.from_ms - begin_ms) / whole_ms) * 100}%`,
              width: `${Math.max(0.3, ((span.to_ms - span.from_ms) / whole_ms) * 100)}%`,
            }}
          />
        ))}
      </div>
      <div className={classes.ends}>
        <span>{clock(run.queued_at)}</span>
        <span className={classes.sums}>
          {sums
            .filter(({ sum_ms }) => sum_ms >= SHOWN_MS_MIN)
            .map(({ phase, word, sum_ms }) => (
              <span key={phase} className={classes.sum} data-phase={phase}>
                {word} {length(sum_ms)}
              </span>
            ))}
        </span>
        <span>{run.ended_at === null ? "now" : clock(run.ended_at)}</span>
      </div>
    </section>
  );
}

function spansOf(run: RunView, events: EventView[], end_ms: number): Span[] {
  const spans: Span[] = [];
  let phase: Phase = "queued";
  let from_ms = Date.parse(run.queued_at);
  function change(next: Phase, at_ms: number) {
    if (next === phase) return;
    if (at_ms > from_ms) spans.push({ phase, from_ms, to_ms: at_ms });
    phase = next;
    from_ms = at_ms;
  }
  // The run itself knows it, also when the event is gone.
  if (run.started_at !== null) change("running", Date.parse(run.started_at));
  for (const event of events) {
    const next = phaseAfter(event as HeadwayEventView); // Events of jobs have other types.
    if (next) change(next, Date.parse(event.at));
  }
  if (end_ms > from_ms) spans.push({ phase, from_ms, to_ms: end_ms });
  return spans;
}

function phaseAfter(event: HeadwayEventView): Phase | null {
  switch (event.type) {
    case "run_state_changed": {
      const { to } = event.payload;
      return to === "running" || to === "cancelling" ? to : null;
    }
    case "run_waiting":
    case "run_parked":
    case "run_taken_over":
      return "waiting";
    case "run_resumed":
      return "running";
    default:
      return null;
  }
}
