/** The limits of a lane as live controls (R1.2): a change holds from the next start on. */
import { ActionIcon, NumberInput, Tooltip } from "@mantine/core";
import { useState } from "react";
import { answerOf, reasonOf } from "../api";
import { type LaneBody, type LaneResponse, setLane } from "../client";
import { live } from "../live";
import classes from "./LimitControl.module.css";

const LIMIT_MAX = 1_000_000;
const QUEUED_MAX = 1_000_000;
const LIFTED = -1;

/** How many run at once: typed, or one more, or one fewer. */
export function LimitControl({ lane }: { lane: LaneResponse }) {
  const { shown: limit, reason, set } = useLimit(lane.max_concurrent, (max_concurrent) => saveLane(lane, { max_concurrent }));
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
export function QueueLimitControl({ lane }: { lane: LaneResponse }) {
  const { shown, reason, set } = useLimit<number | null>(lane.max_queued, (limit) => saveLane(lane, { max_queued: limit ?? LIFTED }));
  return (
    <span className={classes.place}>
      <label className={classes.control}>
        <span className={classes.unit}>At most</span>
        <Typed label={`How many may be queued in ${lane.name}`} value={shown} most={QUEUED_MAX} placeholder="any" onSet={(value) => void set(value)} />
        <span className={classes.unit}>queued</span>
      </label>
      <Refused reason={reason} />
    </span>
  );
}

async function saveLane(lane: LaneResponse, body: LaneBody): Promise<void> {
  live.putLane(await answerOf(setLane({ path: { name: lane.name }, body })));
}

/** A limit that shows what was entered until the server has answered, so that it can be changed again meanwhile. */
function useLimit<Limit extends number | null>(saved: Limit, save: (limit: Limit) => Promise<void>) {
  const [entered, setEntered] = useState<{ limit: Limit } | null>(null);
  const [reason, setReason] = useState<string | null>(null);
  async function set(limit: Limit): Promise<void> {
    const latest = { limit };
    setEntered(latest);
    setReason(null);
    try {
      await save(limit);
    } catch (error) {
      setReason(reasonOf(error));
    }
    // The last entry decides: the answer to an earlier one does not replace it.
    setEntered((now) => (now === latest ? null : now));
  }
  return { shown: entered === null ? saved : entered.limit, reason, set };
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
