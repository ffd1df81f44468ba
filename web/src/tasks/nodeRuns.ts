/** A task, and what its nodes have done: read once, and then whatever is new. */
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { answerOf, queries, reasonOf } from "../api";
import { getTask, listNodeRuns, type NodeRunView } from "../client";
import { useNews } from "../news";

const PAGE_COUNT = 1_000;
const ROW_COUNT_MAX = 20_000;

export interface NodeRuns {
  rows: NodeRunView[];
  /** Only the first so many are shown. */
  isCut: boolean;
  /** As many as there were have been read. */
  isRead: boolean;
  /** Why not all of them could be. */
  problem: string | null;
}

const NOTHING: NodeRuns = { rows: [], isCut: false, isRead: false, problem: null };

export function useTask(task_id: string) {
  const task = useQuery({
    queryKey: ["task", task_id],
    queryFn: () => answerOf(getTask({ path: { task_id } })),
  });
  const { nodeRuns, readMore } = useNodeRuns(task_id);
  useNews(task_id, () => {
    for (const name of ["task", "explain"]) void queries.invalidateQueries({ queryKey: [name, task_id] });
    readMore();
  });
  return { task, nodeRuns };
}

function useNodeRuns(task_id: string): { nodeRuns: NodeRuns; readMore: () => void } {
  const [known, setKnown] = useState<NodeRuns & { task_id: string }>({ task_id, ...NOTHING });
  const reading = useRef<{ task_id: string; after: number; isBusy: boolean; isAskedAgain: boolean }>(null);
  const readMore = useCallback(() => {
    if (reading.current?.task_id !== task_id) reading.current = { task_id, after: 0, isBusy: false, isAskedAgain: false };
    const mine = reading.current;
    if (mine.isBusy) {
      mine.isAskedAgain = true;
      return;
    }
    mine.isBusy = true;
    async function read() {
      do {
        mine.isAskedAgain = false;
        if (mine.after >= ROW_COUNT_MAX) break;
        const { node_runs, has_more } = await answerOf(listNodeRuns({ path: { task_id }, query: { after: mine.after, limit: PAGE_COUNT } }));
        if (reading.current !== mine) return;
        mine.after = node_runs.at(-1)?.seq ?? mine.after;
        mine.isAskedAgain ||= has_more;
        setKnown((before) => ({ ...grown(before, task_id, node_runs), isRead: !has_more, problem: null }));
      } while (mine.isAskedAgain);
    }
    read()
      .catch((error: unknown) => {
        if (reading.current === mine) setKnown((before) => ({ ...grown(before, task_id, []), problem: reasonOf(error) }));
      })
      .finally(() => {
        mine.isBusy = false;
      });
  }, [task_id]);
  useEffect(readMore, [readMore]);
  return { nodeRuns: known.task_id === task_id ? known : NOTHING, readMore };
}

function grown(before: NodeRuns & { task_id: string }, task_id: string, more: NodeRunView[]): NodeRuns & { task_id: string } {
  const known = before.task_id === task_id ? before : { task_id, ...NOTHING };
  const rows = more.length === 0 ? known.rows : [...known.rows, ...more];
  return { ...known, rows, isCut: rows.length >= ROW_COUNT_MAX };
}
