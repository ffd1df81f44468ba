/** What a screen is about, for the title of the window. */
import { useEffect, useSyncExternalStore } from "react";

let subject: string | null = null;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(next: string | null): void {
  subject = next;
  for (const listener of listeners) listener();
}

/** Named for as long as the screen is there. */
export function useSubject(name: string): void {
  useEffect(() => {
    tell(name);
    return () => tell(null);
  }, [name]);
}

export function useShownSubject(): string | null {
  return useSyncExternalStore(subscribe, () => subject);
}
