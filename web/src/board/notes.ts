/** What this tab remembers of a row: what was typed and not saved, and what went wrong. */
import { useSyncExternalStore } from "react";
import { Refusal } from "../api";
import type { Values } from "../form/SchemaForm";
import { live } from "../live";

interface Note {
  isOpen: boolean;
  /** Null: nothing was typed since it was saved. */
  draft: Values | null;
  /** The revision of the row that the draft began with; 0: there was none. */
  base: number;
  reason: string | null;
  /** The run that the row had when it was refused: with another one the reason is out of date. */
  reasonOf: string | null;
  problems: Record<string, string>;
  /** The field whose text cannot be read yet. */
  faulty: string | null;
  isBusy: boolean;
  /** The key has output already: what the server says of it, while it asks what to do. */
  existing: string | null;
}

const BLANK: Note = { isOpen: false, draft: null, base: 0, reason: null, reasonOf: null, problems: {}, faulty: null, isBusy: false, existing: null };
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

/** The key for which it is asked what becomes of its output. */
export function useAskedKey(): string | null {
  return useSyncExternalStore(subscribe, () => [...notes].find(([, { existing }]) => existing !== null)?.[0] ?? null);
}

export function note(key: string, changes: Partial<Note>): void {
  notes.set(key, { ...noteOf(key), ...changes });
  for (const listener of listeners) listener();
}

export function revisionOf(key: string): number {
  return live.keys.get(key)?.revision ?? 0;
}

export function noteDraft(key: string, draft: Values): void {
  const base = noteOf(key).draft === null ? revisionOf(key) : noteOf(key).base;
  note(key, { draft, base, problems: {}, reason: null });
}

export function forgetDraft(key: string): void {
  note(key, { draft: null, problems: {}, reason: null });
}

/** Why it was refused: on the row, and on the fields that are to blame. */
export function noteRefusal(key: string, error: unknown): void {
  const problems: Record<string, string> = {};
  if (error instanceof Refusal) {
    for (const issue of error.issues) {
      const [field] = issue.path.replace(/^params\./, "").split(/[.[]/);
      if (field) problems[field] = issue.problem;
    }
  }
  const isChanged = error instanceof Refusal && error.status === 412;
  const isOpen = noteOf(key).isOpen || isChanged || Object.keys(problems).length > 0;
  note(key, { reason: isChanged ? CHANGED : wordsOf(error), reasonOf: live.runOf(key)?.id ?? null, problems, isOpen });
}

export const CHANGED = "Somebody else has changed this row since you began to. Nothing of yours is saved.";

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
