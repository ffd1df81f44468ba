/** The list of runs: pages from the newest on, and what has come since put before them. */
import { type InfiniteData, useInfiniteQuery } from "@tanstack/react-query";
import { answerOf, queries } from "../api";
import { listRuns, type RunPage } from "../client";
import { useMoves } from "../news";
import type { Filters } from "./filters";

const PAGE_COUNT = 50;
const FIRST_PAGE_COUNT_MAX = 500;

type Pages = InfiniteData<RunPage, string | null>;

function read(filters: Filters, cursor: string | null): Promise<RunPage> {
  return answerOf(listRuns({ query: { ...filters, limit: PAGE_COUNT, ...(cursor === null ? {} : { cursor }) } }));
}

export function useRunPages(filters: Filters) {
  const queryKey = ["runs", filters];
  const pages = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam }) => read(filters, pageParam),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
    staleTime: 0,
  });
  useMoves(() => void lookAgain(["runs", filters]));
  return pages;
}

async function lookAgain(queryKey: [string, Filters]): Promise<void> {
  const newest = await read(queryKey[1], null).catch(() => null); // The banner tells it.
  if (newest === null) return;
  const known = queries.getQueryData<Pages>(queryKey);
  const [first, ...others] = known?.pages ?? [];
  if (known === undefined || first === undefined) return;
  const fresh = new Set(newest.runs.map((run) => run.id));
  const isJoined = newest.cursor === null || first.runs.some((run) => fresh.has(run.id));
  const kept = first.runs.filter((run) => !fresh.has(run.id));
  if (!isJoined || kept.length > FIRST_PAGE_COUNT_MAX) {
    await queries.resetQueries({ queryKey, exact: true });
    return;
  }
  const runs = [...newest.runs, ...(newest.cursor === null ? [] : kept)];
  queries.setQueryData<Pages>(queryKey, { ...known, pages: [{ ...first, runs }, ...others] });
}
