/**
 * The list of runs: pages from the newest on. Whoever is at its top always sees the newest; under
 * whoever has scrolled down nothing moves, and what came meanwhile is counted.
 */
import { type InfiniteData, useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { answerOf, queries } from "../api";
import { listRuns, type RunPage, type RunView } from "../client";
import { live } from "../live";
import { useMoves } from "../news";
import type { LiveRun } from "../stream/model";
import type { Filters } from "./filters";

export const PAGE_COUNT = 50;
/** Those far away are forgotten, and read again by whoever comes back to them. */
const PAGES_HELD_MAX = 20;

/** Of the first page. It has no cursor: it is whatever is newest. */
const TOP = "";

type Pages = InfiniteData<RunPage, string>;

async function read(filters: Filters, cursor: string): Promise<RunPage> {
  const page = await answerOf(listRuns({ query: { ...filters, limit: PAGE_COUNT, ...(cursor === TOP ? {} : { cursor }) } }));
  return withEnds(page, live.ended); // One may have ended while the answer was on its way.
}

function withEnds(page: RunPage, ended: ReadonlyMap<string, LiveRun>): RunPage {
  if (!page.runs.some((run) => ended.has(run.id))) return page;
  return { ...page, runs: page.runs.map((run) => asEnded(run, ended.get(run.id))) };
}

function asEnded(run: RunView, ended: LiveRun | undefined): RunView {
  if (ended === undefined) return run;
  const { status, state, is_waiting, attempt, started_at, ended_at, progress, error } = ended;
  return { ...run, status, state, is_waiting, attempt, started_at, ended_at, progress: progress ?? run.progress, error };
}

/** Called once, when the page opens: whatever list is held, what ends is over in it. */
export function watchRunEnds(): void {
  live.watchEnds((runs) => {
    const ended = new Map(runs.map((run) => [run.id, run]));
    queries.setQueriesData<Pages>({ queryKey: ["runs"] }, (known) => known && { ...known, pages: known.pages.map((page) => withEnds(page, ended)) });
  });
}

/**
 * Where each page lies: those before the first that is held may have been forgotten, and a page of
 * large runs has fewer of them.
 */
class Places {
  private readonly known = new Map<string, { offset: number; before: string }>();

  note(cursor: string, page: RunPage): void {
    if (page.cursor !== null) this.known.set(page.cursor, { offset: this.offsetOf(cursor) + page.runs.length, before: cursor });
  }

  /** How many runs come before the page. */
  offsetOf(cursor: string): number {
    return this.known.get(cursor)?.offset ?? 0;
  }

  before(cursor: string): string | undefined {
    return this.known.get(cursor)?.before;
  }
}

interface RunPages {
  runs: RunView[];
  /** How many come before the first of `runs`. */
  offset: number;
  /** How many have come since, at least; 0 for whoever is at the top. */
  newerCount: number;
  isSuccess: boolean;
  isReading: boolean;
  error: Error | null;
  /** Read what follows, or what comes before, unless it is there or is being read. */
  readOn: () => void;
  readBack: () => void;
  /** Let the list begin with the newest again. */
  showNewest: () => void;
}

/** `filters` must stay the same. */
export function useRunPages(filters: Filters, isAtTop: () => boolean): RunPages {
  const [places] = useState(() => new Places());
  const [newerCount, setNewerCount] = useState(0);
  const queryKey = ["runs", filters];
  async function readPage(cursor: string): Promise<RunPage> {
    const page = await read(filters, cursor);
    places.note(cursor, page);
    return page;
  }
  const pages = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam }) => readPage(pageParam),
    initialPageParam: TOP,
    getNextPageParam: (page) => page.cursor,
    getPreviousPageParam: (_page, _pages, cursor) => places.before(cursor),
    maxPages: PAGES_HELD_MAX,
    staleTime: 0,
  });
  async function look(isWanted: () => boolean): Promise<void> {
    const newest = await readPage(TOP).catch(() => null); // The banner tells it.
    if (newest === null) return;
    const known = queries.getQueryData<Pages>(queryKey);
    if (isWanted() || known === undefined) {
      setNewerCount(0);
      queries.setQueryData<Pages>(queryKey, startingWith(newest, known));
    } else if (known.pageParams[0] === TOP) {
      const newest_seq = known.pages[0]?.runs[0]?.seq ?? 0;
      setNewerCount(newest.runs.filter((run) => run.seq > newest_seq).length);
    }
  }
  useMoves(() => void look(isAtTop));
  const { data, hasNextPage, hasPreviousPage, isFetching } = pages;
  const first = (data?.pageParams[0] ?? TOP) as string;
  return {
    runs: useMemo(() => data?.pages.flatMap((page) => page.runs) ?? [], [data]),
    offset: places.offsetOf(first),
    newerCount,
    isSuccess: pages.isSuccess,
    isReading: pages.isPending || pages.isFetchingNextPage,
    error: data === undefined ? pages.error : null,
    readOn: () => hasNextPage && !isFetching && void pages.fetchNextPage(),
    readBack: () => {
      if (!hasPreviousPage || isFetching) return;
      // What is newest now is followed by another page than before.
      if (places.before(first) === TOP) void look(() => true);
      else void pages.fetchPreviousPage();
    },
    showNewest: () => void look(() => true),
  };
}

/** The pages after the first are kept if they still follow it. */
function startingWith(newest: RunPage, known: Pages | undefined): Pages {
  const [first, second] = known?.pageParams ?? [];
  if (known === undefined || first !== TOP || second !== newest.cursor) return { pages: [newest], pageParams: [TOP] };
  return { pages: [newest, ...known.pages.slice(1)], pageParams: known.pageParams };
}
