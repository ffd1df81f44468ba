/** Whoever acts by the keyboard stays in place when what they have used goes away. */
import { type FocusEvent, type RefObject, useEffect, useRef } from "react";

interface KeptFocus<T> {
  ref: RefObject<T | null>;
  onFocus: () => void;
  onBlur: (event: FocusEvent) => void;
}

/** The focus goes on to the first button that is there again, as soon as it `isReady`. */
export function useKeptFocus<T extends HTMLElement>(isReady: boolean): KeptFocus<T> {
  const ref = useRef<T>(null);
  const isHere = useRef(false);
  useEffect(() => {
    if (!isReady || !isHere.current || !isFocusLost()) return;
    ref.current?.querySelector<HTMLElement>("button:not(:disabled)")?.focus();
  });
  return {
    ref,
    onFocus: () => {
      isHere.current = true;
    },
    onBlur: ({ target, relatedTarget }) => {
      // What was left on purpose is still there and in use.
      const hasGone = !target.isConnected || target.matches(":disabled");
      if (relatedTarget !== null || !hasGone) isHere.current = false;
    },
  };
}

export function isFocusLost(): boolean {
  const { activeElement } = document;
  return activeElement === null || activeElement === document.body || activeElement.matches(":disabled");
}
