/** What a run says and what happens to it, line by line; it follows the end while one is there. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import type { EventView } from "../client";
import { clock } from "../time";
import { type Line, linesOf } from "./words";
import classes from "./Lines.module.css";

const LINE_HEIGHT = 24;
const NEAR_PX = 40;

export function Lines({ events, label, empty }: { events: EventView[]; label: string; empty: string }) {
  const lines = useMemo(() => linesOf(events), [events]);
  const box = useRef<HTMLDivElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
    getItemKey: (index) => lines[index]?.id ?? index,
  });
  useEffect(() => {
    if (isFollowing && lines.length > 0) virtual.scrollToIndex(lines.length - 1, { align: "end" });
  }, [isFollowing, lines.length, virtual]);
  if (lines.length === 0) return <p className={classes.empty}>{empty}</p>;
  return (
    <div
      ref={box}
      className={classes.box}
      tabIndex={0}
      role="log"
      aria-live="off"
      aria-label={label}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => setFollowing(scrollHeight - scrollTop - clientHeight < NEAR_PX)}
    >
      <div className={classes.all} style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const { at, words, tone } = lines[item.index] as Line;
          return (
            <div
              key={item.key}
              ref={virtual.measureElement}
              data-index={item.index}
              className={classes.line}
              data-tone={tone}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <time dateTime={at} title={at}>
                {clock(at)}
              </time>
              <span dir="auto">{words}</span>
            </div>
          );
        })}
      </div>
    </div>
  );
}
