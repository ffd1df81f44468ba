/** How many may run at once, as a live control (R1.2): a change holds from the next start on. */
import { ActionIcon, Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { answerOf, reasonOf } from "../api";
import { type LaneView, setLane } from "../client";
import { live, useLive } from "../live";
import classes from "./Limits.module.css";

const LIMIT_MAX = 100_000;

export function Limits() {
  const lanes = useLive((live) => live.lanes);
  // The lane of the board, and every other one in which something is going on.
  const shown = lanes.filter((lane) => lane.name === "main" || lane.held_count + lane.queued_count > 0);
  return (
    <div className={classes.limits}>
      {shown.slice(0, 4).map((lane) => (
        <div key={lane.name} className={classes.lane}>
          <span className={classes.name}>
            {shown.length > 1 && <Link to="/lanes">{lane.name}</Link>} <b>{lane.held_count}</b> running
            {lane.queued_count > 0 && (
              <>
                , <b>{lane.queued_count}</b> queued
              </>
            )}
            {lane.paused && <span className={classes.paused}> paused</span>}
          </span>
          <LimitControl lane={lane} />
        </div>
      ))}
    </div>
  );
}

export function LimitControl({ lane }: { lane: LaneView }) {
  const [wanted, setWanted] = useState<number | null>(null);
  const [reason, setReason] = useState<string | null>(null);
  const limit = wanted ?? lane.max_concurrent;
  async function set(max_concurrent: number) {
    setWanted(max_concurrent);
    setReason(null);
    try {
      live.putLane(await answerOf(setLane({ path: { name: lane.name }, body: { max_concurrent } })));
    } catch (error) {
      setReason(reasonOf(error));
    } finally {
      // The last click decides: an earlier answer does not take its number back.
      setWanted((now) => (now === max_concurrent ? null : now));
    }
  }
  return (
    <span className={classes.control} role="group" aria-label={`How many run at once in ${lane.name}`}>
      <Tooltip label="Fewer at once; nobody is interrupted">
        <ActionIcon size="sm" variant="subtle" color="gray" aria-label={`Lower the limit of ${lane.name}`} disabled={limit <= 0} onClick={() => void set(limit - 1)}>
          −
        </ActionIcon>
      </Tooltip>
      <output className={classes.limit} data-testid={`limit-${lane.name}`}>
        {limit} at once
      </output>
      <Tooltip label="More at once">
        <ActionIcon size="sm" variant="subtle" color="gray" aria-label={`Raise the limit of ${lane.name}`} disabled={limit >= LIMIT_MAX} onClick={() => void set(limit + 1)}>
          +
        </ActionIcon>
      </Tooltip>
      {reason && <span className={classes.reason}>{reason}</span>}
    </span>
  );
}
