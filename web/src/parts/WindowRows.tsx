/** A long list that scrolls with the page. Only what is in sight is drawn, so that thousands are as quick as ten. */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";
import classes from "./WindowRows.module.css";

interface Props {
  label: string;
  count: number;
  /** What one is taken for until it is measured. */
  rowHeight: number;
  keyOf: (index: number) => string | number;
  children: (index: number) => ReactNode;
  overscan?: number;
  /** False: a row that comes a frame later is better than a wheel that sticks. */
  useFlushSync?: boolean;
  /** More may follow than are counted. */
  isOpen?: boolean;
  className?: string | undefined;
  onSeen?: (first: number, last: number) => void;
}

export function WindowRows({ label, count, rowHeight, keyOf, children, overscan = 10, useFlushSync = true, isOpen, className, onSeen }: Props) {
  const list = useRef<HTMLUListElement>(null);
  const virtual = useWindowVirtualizer({
    count,
    estimateSize: () => rowHeight,
    overscan,
    useFlushSync,
    scrollMargin: list.current?.offsetTop ?? 0,
    getItemKey: keyOf,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => onSeen?.(first, last), [first, last, onSeen]);
  return (
    <ul ref={list} className={className ? `${classes.rows} ${className}` : classes.rows} style={{ height: virtual.getTotalSize() }} aria-label={label}>
      {items.map((item) => (
        <li
          key={item.key}
          ref={virtual.measureElement}
          data-index={item.index}
          aria-setsize={isOpen ? -1 : count}
          aria-posinset={item.index + 1}
          className={classes.place}
          style={{ transform: `translateY(${item.start - virtual.options.scrollMargin}px)` }}
        >
          {children(item.index)}
        </li>
      ))}
    </ul>
  );
}
