/** Start on a key that has output already asks first (R1.12). */
import { Modal, UnstyledButton } from "@mantine/core";
import classes from "./ExistingOutput.module.css";

export type Existing = "replace" | "archive" | "delete";

const CHOICES: { existing: Existing; name: string; means: string }[] = [
  { existing: "replace", name: "Replace", means: "Go on. Files of the same name are written over, others stay." },
  { existing: "archive", name: "Pack into an archive", means: "Put what is there into a zip file, then begin with nothing." },
  { existing: "delete", name: "Delete", means: "Remove what earlier runs have made, then begin with nothing." },
];

interface Props {
  rowKey: string;
  /** What the server says is there. */
  told: string;
  isBusy: boolean;
  /** Why the last choice was refused. */
  reason?: string | null;
  onStart: (existing: Existing) => void;
  onContinue: () => void;
  onClose: () => void;
}

export function ExistingOutput({ rowKey, told, isBusy, reason = null, onStart, onContinue, onClose }: Props) {
  const files = /\((.*?)\)/.exec(told)?.[1];
  return (
    <Modal opened onClose={onClose} title={`${rowKey} has output already`} size="md">
      <p className={classes.told} dir="auto">
        {files ? `It has ${files}. ` : ""}What is to become of it?
      </p>
      <div className={classes.choices}>
        {CHOICES.map(({ existing, name, means }) => (
          <UnstyledButton
            key={existing}
            className={classes.choice}
            data-danger={existing === "delete" || undefined}
            disabled={isBusy}
            onClick={() => onStart(existing)}
          >
            <b>{name}</b>
            <span>{means}</span>
          </UnstyledButton>
        ))}
        <UnstyledButton className={classes.choice} disabled={isBusy} onClick={onContinue}>
          <b>Continue instead</b>
          <span>Keep it, and go on where the last run stopped.</span>
        </UnstyledButton>
      </div>
      {reason !== null && (
        <p className={classes.reason} role="alert" dir="auto">
          {reason}
        </p>
      )}
    </Modal>
  );
}
