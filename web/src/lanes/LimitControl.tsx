/** The limits of a lane as live controls (R1.2): a change holds from the next start on. */
import { ActionIcon, NumberInput, Tooltip } from "@mantine/core";
import { useState } from "react";
import { answerOf, reasonOf } from "../api";
import { type LaneBody, type LaneView, setLane } from "../client";
import { live } from "../live";
import classes from "./LimitControl.module.css";

const LIMIT_MAX = 1_000_000;
const QUEUED_MAX = 1_000_000;
const LIFTED = -1;

/** How many run at once: typed, or one more, or one fewer. */
export function LimitControl({ lane }: { lane: LaneView }) {
  const [wanted, setWanted] = useState<number | null>(null);
  const { reason, change } = useChange(lane);
  const limit = wanted ?? lane.max_concurrent;
  async function set(max_concurrent: number) {
    setWanted(max_concurrent);
    await change({ max_concurrent });
    // The last click decides: an earlier answer does not take its number back.
    setWanted((now) => (now === max_concurrent ? null : now));
  }
  return (
    <span className={classes.place}>
      <span className={classes.control} role="group" aria-label={`How many run at once in ${lane.name}`}>
        <Tooltip label="Fewer at once; nobody is interrupted">
          <ActionIcon size={28} variant="subtle" color="gray" aria-label={`Lower the limit of ${lane.name}`} disabled={limit <= 0} onClick={() => void set(limit - 1)}>
            −
          </ActionIcon>
        </Tooltip>
        <Typed label={`The limit of ${lane.name}`} value={limit} most={LIMIT_MAX} onSet={(value) => value !== null && void set(value)} />
        <span className={classes.unit}>at once</span>
        <Tooltip label="More at once">
          <ActionIcon size={28} variant="subtle" color="gray" aria-label={`Raise the limit of ${lane.name}`} disabled={limit >= LIMIT_MAX} onClick={() => void set(limit + 1)}>
            +
          </ActionIcon>
        </Tooltip>
      </span>
      <Refused reason={reason} />
    </span>
  );
}

/** How many may be queued; left empty, as many as come. */
export function QueueLimitControl({ lane }: { lane: LaneView }) {
  const { reason, change } = useChange(lane);
  return (
    <span className={classes.place}>
      <label className={classes.control}>
        <span className={classes.unit}>At most</span>
        <Typed label={`How many may be queued in ${lane.name}`} value={lane.max_queued} most={QUEUED_MAX} placeholder="any" onSet={(value) => void change({ max_queued: value ?? LIFTED })} />
        <span className={classes.unit}>queued</span>
      </label>
      <Refused reason={reason} />
    </span>
  );
}

function useChange(lane: LaneView) {
  const [reason, setReason] = useState<string | null>(null);
  async function change(body: LaneBody): Promise<void> {
    setReason(null);
    try {
      live.putLane(await answerOf(setLane({ path: { name: lane.name }, body })));
    } catch (error) {
      setReason(reasonOf(error));
    }
  }
  return { reason, change };
}

function Refused({ reason }: { reason: string | null }) {
  if (reason === null) return null;
  return (
    <span className={classes.reason} role="alert">
      {reason}
    </span>
  );
}

interface TypedProps {
  label: string;
  /** Null: there is none. */
  value: number | null;
  most: number;
  placeholder?: string;
  onSet: (value: number | null) => void;
}

/** A number that holds when Enter is pressed, or when one goes on to something else. */
function Typed({ label, value, most, placeholder = "", onSet }: TypedProps) {
  const [typed, setTyped] = useState<number | string | null>(null);
  function set() {
    const entered = typed === "" ? null : typed;
    setTyped(null);
    if (typed !== null && entered !== value && typeof entered !== "string") onSet(entered);
  }
  const shown = typed ?? value ?? "";
  return (
    <NumberInput
      variant="unstyled"
      classNames={{ input: classes.typed ?? "" }}
      w={`${Math.max(2, String(shown).length, placeholder.length) + 1.5}ch`}
      aria-label={label}
      placeholder={placeholder}
      value={shown}
      min={0}
      max={most}
      allowDecimal={false}
      allowNegative={false}
      hideControls
      onChange={setTyped}
      onBlur={set}
      onKeyDown={(event) => {
        if (event.key === "Enter") set();
        if (event.key === "Escape") setTyped(null);
      }}
    />
  );
}
