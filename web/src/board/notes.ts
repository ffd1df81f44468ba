/** What this tab remembers of a row: what was typed and not saved, and what went wrong. */
import { useSyncExternalStore } from "react";
import { Refusal } from "../api";
import type { Values } from "../form/SchemaForm";

export interface Note {
  isOpen: boolean;
  /** Null: nothing was typed since it was saved. */
  draft: Values | null;
  reason: string | null;
  problems: Record<string, string>;
  /** The field whose text cannot be read yet. */
  faulty: string | null;
  isBusy: boolean;
  /** The key has output already: what the server says of it, while it asks what to do. */
  existing: string | null;
}

const BLANK: Note = { isOpen: false, draft: null, reason: null, problems: {}, faulty: null, isBusy: false, existing: null };
const notes = new Map<string, Note>();
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function noteOf(key: string): Note {
  return notes.get(key) ?? BLANK;
}

export function useNote(key: string): Note {
  return useSyncExternalStore(subscribe, () => noteOf(key));
}

export function note(key: string, changes: Partial<Note>): void {
  notes.set(key, { ...noteOf(key), ...changes });
  for (const listener of listeners) listener();
}

/** Why it was refused: on the row, and on the fields that are to blame. */
export function noteRefusal(key: string, error: unknown): void {
  const problems: Record<string, string> = {};
  if (error instanceof Refusal) {
    for (const fault of error.faults) {
      const [field] = fault.place.replace(/^params\./, "").split(/[.[]/);
      if (field) problems[field] = fault.problem;
    }
  }
  const isOpen = noteOf(key).isOpen || Object.keys(problems).length > 0;
  const reason = error instanceof Error ? error.message : String(error);
  note(key, { reason, problems, isOpen });
}
