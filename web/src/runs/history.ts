/** All that happened to a run: what is kept of it, and what comes while one looks. */
import { useCallback, useEffect, useState } from "react";
import { answerOf, reasonOf } from "../api";
import { type EventView, runEvents } from "../client";
import { useLive, useWatch } from "../live";

const PAGE_COUNT_MAX = 200;
const EVENT_COUNT_MAX = 20_000;

interface History {
  events: EventView[];
  /** What happened before the first of them is not kept any more. */
  isPruned: boolean;
  /** Everything that is kept was read. */
  isWhole: boolean;
  /** Why not all of it could be read. */
  problem: string | null;
}

const NOTHING: History = { events: [], isPruned: false, isWhole: false, problem: null };

export function useHistory(run_id: string): History & { again: () => void } {
  const [history, setHistory] = useState<{ run_id: string } & History>({ run_id, ...NOTHING });
  const [attempt, setAttempt] = useState(0);
  const epoch = useLive((live) => live.epoch);
  const add = useCallback(
    (events: EventView[], more: Partial<History> = {}) =>
      setHistory((before) => {
        const known = before.run_id === run_id ? before : { run_id, ...NOTHING };
        return { ...known, ...more, events: merged(known.events, events) };
      }),
    [run_id],
  );
  useWatch(run_id, add);
  // After a cut too: what came meanwhile was told to nobody.
  useEffect(() => {
    let isWanted = true;
    async function readAll() {
      let after: string | undefined; // From its beginning, or from its oldest stored event.
      for (let page = 0; page < PAGE_COUNT_MAX && isWanted; page += 1) {
        const { events, event_id, has_more, resync } = await answerOf(runEvents({ path: { run_id }, query: { after } }));
        if (isWanted) add(events, { isWhole: !has_more, problem: null, ...(resync ? { isPruned: true } : {}) });
        if (!has_more) return;
        after = event_id;
      }
    }
    readAll().catch((error: unknown) => isWanted && add([], { problem: reasonOf(error) }));
    return () => {
      isWanted = false;
    };
  }, [run_id, add, epoch, attempt]);
  const again = useCallback(() => setAttempt((before) => before + 1), []);
  return { ...(history.run_id === run_id ? history : NOTHING), again };
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
