/** What a run says and what happens to it, line by line; it follows the end while one is there. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import type { EventView } from "../client";
import { clock } from "../time";
import { lineOf } from "./words";
import classes from "./Lines.module.css";

const LINE_HEIGHT = 24;
const NEAR_PX = 40;

export function Lines({ events, label, empty }: { events: EventView[]; label: string; empty: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const virtual = useVirtualizer({
    count: events.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
    getItemKey: (index) => events[index]?.seq ?? index,
  });
  useEffect(() => {
    if (isFollowing && events.length > 0) virtual.scrollToIndex(events.length - 1, { align: "end" });
  }, [isFollowing, events.length, virtual]);
  if (events.length === 0) return <p className={classes.empty}>{empty}</p>;
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
          const event = events[item.index] as EventView;
          const { words, tone } = lineOf(event);
          return (
            <div
              key={item.key}
              ref={virtual.measureElement}
              data-index={item.index}
              className={classes.line}
              data-tone={tone}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <time dateTime={event.at} title={event.at}>
                {clock(event.at)}
              </time>
              <span dir="auto">{words}</span>
            </div>
          );
        })}
      </div>
    </div>
  );
}
