/** Copied parameters: shared by the tabs, and put on the system's clipboard where that is allowed. */
import { useSyncExternalStore } from "react";
import type { Values } from "../form/SchemaForm";
import { fieldsOf, isHidden, type Schema } from "../form/schema";

const PLACE = "headway.copied";
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  addEventListener("storage", listener);
  return () => {
    listeners.delete(listener);
    removeEventListener("storage", listener);
  };
}

/** Parameters only, and never a secret (R1.12). */
export function copy(values: Values, schema: Schema | undefined): void {
  const secrets = new Set(fieldsOf(schema ?? {}).filter((field) => field.kind === "secret").map((field) => field.name));
  const copied = Object.fromEntries(Object.entries(values).filter(([name]) => !secrets.has(name)));
  const text = JSON.stringify(copied, null, 2);
  localStorage.setItem(PLACE, text);
  for (const listener of listeners) listener();
  // Only pages of a safe origin have it, and the user may refuse: our own copy is enough.
  navigator.clipboard?.writeText(text).catch(() => undefined);
}

/** What was copied, with the secrets that the row has already: they stay as they are. */
export function pasted(found: Values, own: Values): Values {
  const kept = Object.entries(own).filter(([name, value]) => isHidden(value) && !(name in found));
  return { ...found, ...Object.fromEntries(kept) };
}

export function copied(): Values | null {
  const text = localStorage.getItem(PLACE);
  return text === null ? null : (JSON.parse(text) as Values);
}

export function useHasCopied(): boolean {
  return useSyncExternalStore(subscribe, () => localStorage.getItem(PLACE) !== null);
}
