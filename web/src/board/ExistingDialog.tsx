/**
 * What becomes of the output that a key has. It belongs to the board and not to the row: a row that
 * is out of sight is not drawn.
 */
import { useEffect, useRef } from "react";
import { isFocusLost } from "../parts/keptFocus";
import { start } from "./actions";
import { ExistingOutput } from "./ExistingOutput";
import { note, useAskedKey, useNote } from "./notes";
import { useRow } from "./rows";

export function ExistingDialog() {
  const key = useAskedKey();
  const last = useRef<string | null>(null);
  if (key !== null) last.current = key;
  const { isBusy } = useNote(last.current ?? "");
  useEffect(() => {
    if (key !== null || isBusy || last.current === null) return;
    // Whoever has chosen goes on at the row, whose buttons are others by now.
    const buttons = `[data-row="${CSS.escape(last.current)}"] [data-buttons] button:not(:disabled)`;
    if (isFocusLost()) document.querySelector<HTMLElement>(buttons)?.focus();
    last.current = null;
  }, [key, isBusy]);
  return key === null ? null : <Dialog key={key} rowKey={key} />;
}

function Dialog({ rowKey }: { rowKey: string }) {
  const { job, values } = useRow(rowKey);
  const { existing: told, isBusy, reason } = useNote(rowKey);
  if (told === null || job === null) return null;
  return (
    <ExistingOutput
      rowKey={rowKey}
      told={told}
      isBusy={isBusy}
      reason={reason}
      onStart={(existing) => void start(rowKey, job, "start", values, existing)}
      onContinue={() => void start(rowKey, job, "continue", values)}
      onClose={() => note(rowKey, { existing: null })}
    />
  );
}
