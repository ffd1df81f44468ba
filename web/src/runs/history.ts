/** All that happened to a run: what is kept of it, and what comes while one looks. */
import { useCallback, useEffect, useState } from "react";
import { answerOf } from "../api";
import { type EventView, runEvents } from "../client";
import { useLive, useWatch } from "../live";

const PAGE_COUNT_MAX = 40;
const EVENT_COUNT_MAX = 20_000;

export interface History {
  events: EventView[];
  isWhole: boolean;
}

const NOTHING: History = { events: [], isWhole: false };

export function useHistory(run_id: string): History {
  const [history, setHistory] = useState<{ run_id: string } & History>({ run_id, ...NOTHING });
  const epoch = useLive((live) => live.epoch);
  const add = useCallback(
    (events: EventView[], isWhole?: boolean) =>
      setHistory((before) => {
        const known = before.run_id === run_id ? before : { run_id, ...NOTHING };
        return { run_id, events: merged(known.events, events), isWhole: isWhole ?? known.isWhole };
      }),
    [run_id],
  );
  useWatch(run_id, add);
  // After a cut too: what came meanwhile was told to nobody.
  useEffect(() => {
    let isWanted = true;
    async function readAll() {
      let after = 0;
      for (let page = 0; page < PAGE_COUNT_MAX && isWanted; page += 1) {
        const { events, upto_seq } = await answerOf(runEvents({ path: { run_id }, query: { after } }));
        const isLast = upto_seq === after; // A page may be empty and not be the last.
        if (isWanted) add(events, isLast);
        if (isLast) return;
        after = upto_seq;
      }
    }
    readAll().catch(() => undefined); // The banner tells it, and the next snapshot reads again.
    return () => {
      isWanted = false;
    };
  }, [run_id, add, epoch]);
  return history.run_id === run_id ? history : NOTHING;
}

/** In order and each once, the newest if there are too many. */
function merged(known: EventView[], more: EventView[]): EventView[] {
  if (more.length === 0) return known;
  const lastSeq = known.at(-1)?.seq ?? 0;
  const isLater = more.every((event, index) => event.seq > (index === 0 ? lastSeq : (more[index - 1]?.seq ?? 0)));
  const all = isLater
    ? [...known, ...more]
    : [...new Map([...known, ...more].map((event) => [event.seq, event])).values()].sort((one, other) => one.seq - other.seq);
  return all.length > EVENT_COUNT_MAX ? all.slice(-EVENT_COUNT_MAX) : all;
}
