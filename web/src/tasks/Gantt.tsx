/** What the nodes of a task did with its time: a bar for each try, and behind it what went in and out. */
import { UnstyledButton } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef, useState } from "react";
import type { NodeRunView, TaskResponse } from "../client";
import { ChevronIcon } from "../parts/icons";
import { Json } from "../parts/Json";
import { clock, length, useNow } from "../time";
import classes from "./Gantt.module.css";

const ROW_HEIGHT = 34;
/** What a bar's colour says, for everybody. */
const WORDS: Record<string, string> = { ok: "done", error: "failed", canceled: "cancelled", running: "running", waiting: "waiting" };
const SIGNS: Record<string, string> = { ok: "✓", error: "✕", canceled: "⊘", running: "▸", waiting: "…" };

interface Props {
  task: TaskResponse;
  /** Those that are shown. */
  rows: NodeRunView[];
  all: NodeRunView[];
  isUnderWay: boolean;
}

interface Bar {
  id: string;
  name: string;
  more: string;
  state: string;
  from_ms: number;
  to_ms: number;
  row: NodeRunView | null;
}

export function Gantt({ task, rows, all, isUnderWay }: Props) {
  const now = useNow();
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const box = useRef<HTMLDivElement>(null);
  const begin_ms = Date.parse(task.started_at ?? task.queued_at);
  const bars = barsOf(rows);
  if (isUnderWay && task.started_at !== null) bars.push(barNow(task, all, begin_ms, now));
  const end_ms = Math.max(begin_ms + 1, task.ended_at === null ? now : Date.parse(task.ended_at), ...bars.slice(-1).map((bar) => bar.to_ms));
  const virtual = useVirtualizer({
    count: bars.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 10,
    getItemKey: (index) => bars[index]?.id ?? index,
  });
  if (bars.length === 0) return <p className={classes.none}>No node has been at work yet.</p>;
  function toggle(id: string) {
    setOpen((before) => {
      const after = new Set(before);
      if (!after.delete(id)) after.add(id);
      return after;
    });
  }
  return (
    <section className={classes.gantt} aria-label="Node runs">
      <div className={classes.scale}>
        <span>{clock(new Date(begin_ms).toISOString())}</span>
        <span className={classes.whole}>{length(end_ms - begin_ms)}</span>
        <span>{task.ended_at === null ? "now" : clock(task.ended_at)}</span>
      </div>
      <div className={classes.box} ref={box}>
        <ol className={classes.all} style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const bar = bars[item.index] as Bar;
            return (
              <li key={item.key} ref={virtual.measureElement} data-index={item.index} aria-setsize={bars.length} aria-posinset={item.index + 1} className={classes.place} style={{ transform: `translateY(${item.start}px)` }}>
                <BarRow bar={bar} begin_ms={begin_ms} whole_ms={end_ms - begin_ms} isOpen={open.has(bar.id)} onToggle={() => toggle(bar.id)} />
              </li>
            );
          })}
        </ol>
      </div>
    </section>
  );
}

function barsOf(rows: NodeRunView[]): Bar[] {
  // A node that makes one call has one branch, of which nobody need hear.
  const branching = new Set(rows.filter((row) => row.branch !== null && row.branch > 0).map((row) => row.path.join("\u0000")));
  return rows.map((row) => barOf(row, branching.has(row.path.join("\u0000"))));
}

function barOf(row: NodeRunView, isBranching: boolean): Bar {
  const tries = row.attempt > 1 ? `try ${row.attempt}` : "";
  const branch = row.branch === null || !isBranching ? "" : `branch ${row.branch + 1}`;
  return {
    id: String(row.seq),
    name: row.path.length > 1 ? row.path.join(" › ") : row.node,
    more: [branch, tries].filter(Boolean).join(", "),
    state: row.status,
    from_ms: Date.parse(row.started_at),
    to_ms: Date.parse(row.finished_at),
    row,
  };
}

/** The node where the task is: it has no node run yet. */
function barNow(task: TaskResponse, rows: NodeRunView[], begin_ms: number, now: number): Bar {
  const last = rows.findLast((row) => row.action !== "" || row.node !== task.node);
  const from_ms = last ? Date.parse(last.finished_at) : begin_ms;
  return { id: "now", name: task.node, more: "", state: task.waits_for === null ? "running" : "waiting", from_ms, to_ms: Math.max(now, from_ms), row: null };
}

function BarRow({ bar, begin_ms, whole_ms, isOpen, onToggle }: { bar: Bar; begin_ms: number; whole_ms: number; isOpen: boolean; onToggle: () => void }) {
  const left = Math.min(99.5, Math.max(0, ((bar.from_ms - begin_ms) / whole_ms) * 100));
  const width = Math.min(100 - left, Math.max(0.5, ((bar.to_ms - bar.from_ms) / whole_ms) * 100));
  const line = (
    <>
      <span className={classes.name}>
        {bar.row && (
          <span className={classes.chevron} data-open={isOpen}>
            <ChevronIcon size={12} />
          </span>
        )}
        <b dir="auto">{bar.name}</b>
        {bar.more && <span>{bar.more}</span>}
      </span>
      <span className={classes.track}>
        <span className={classes.bar} data-state={bar.state} style={{ left: `${left}%`, width: `${width}%` }} />
      </span>
      <span className={classes.end}>
        <span className={classes.word} data-state={bar.state}>
          <span aria-hidden="true">{SIGNS[bar.state]}</span> {WORDS[bar.state] ?? bar.state}
        </span>
        <span className={classes.action} dir="auto">
          {bar.row?.action}
        </span>
        <span>{length(bar.to_ms - bar.from_ms)}</span>
      </span>
    </>
  );
  if (bar.row === null) return <div className={classes.line}>{line}</div>;
  return (
    <>
      <UnstyledButton className={classes.line} aria-expanded={isOpen} onClick={onToggle} data-testid="node-run" data-state={bar.state}>
        {line}
      </UnstyledButton>
      {isOpen && <Details row={bar.row} />}
    </>
  );
}

function Details({ row }: { row: NodeRunView }) {
  return (
    <div className={classes.details} data-testid="node-run-details">
      <p className={classes.facts}>
        <span>{clock(row.started_at)}</span>
        <span>{WORDS[row.status] ?? row.status}</span>
        {row.attempt > 1 && <span>try {row.attempt}</span>}
        {row.action !== "" && <span dir="auto">leads on by “{row.action}”</span>}
        {row.worker && (
          <span dir="auto">
            by {row.worker.id} at {row.worker.url}
          </span>
        )}
      </p>
      {row.error !== "" && (
        <p className={classes.error} dir="auto">
          {row.error}
        </p>
      )}
      <div className={classes.documents}>
        <div>
          <h3>Input</h3>
          <Json value={row.input ?? null} label={`Input of ${row.node}`} />
        </div>
        <div>
          <h3>Output</h3>
          <Json value={row.output ?? null} label={`Output of ${row.node}`} />
        </div>
      </div>
    </div>
  );
}
