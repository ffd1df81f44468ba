import { Button, Loader, MultiSelect, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { reasonOf } from "../api";
import type { RunView } from "../client";
import { useJobs } from "../jobs";
import { live, useLive } from "../live";
import { Empty } from "../parts/Empty";
import { Figures } from "../parts/Figures";
import { Pill, statusWord } from "../parts/Pill";
import { SearchIcon } from "../parts/icons";
import { type LiveRun, type Status, toLive } from "../stream/model";
import { ago, length, useNow } from "../time";
import { type Filters, STATUSES } from "./filters";
import { useRunPages } from "./pages";
import { reasonOfEnd } from "./reasons";
import classes from "./RunList.module.css";

const ROW_HEIGHT = 49;

export function RunList() {
  const filters = useSearch({ from: "/runs" });
  const pages = useRunPages(filters);
  const runs = useMemo(() => pages.data?.pages.flatMap((page) => page.runs) ?? [], [pages.data]);
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <>
      <div className={classes.head}>
        <h1>Runs</h1>
      </div>
      <FilterBar filters={filters} />
      {pages.error && <Empty title="The runs cannot be read">{reasonOf(pages.error)}</Empty>}
      {pages.isSuccess && runs.length === 0 && (
        <Empty title={isFiltered ? "No run fits" : "No runs yet"}>
          {isFiltered ? "Take a filter away to see more." : "Start one on the board, or submit one through the API."}
        </Empty>
      )}
      {runs.length > 0 && <Rows runs={runs} filters={filters} onEnd={() => pages.hasNextPage && !pages.isFetching && void pages.fetchNextPage()} />}
      {(pages.isPending || pages.isFetchingNextPage) && (
        <div className={classes.loading}>
          <Loader size="sm" aria-label="Reading more runs" />
        </div>
      )}
    </>
  );
}

function FilterBar({ filters }: { filters: Filters }) {
  const navigate = useNavigate({ from: "/runs" });
  const jobs = useJobs();
  const lanes = useLive((live) => live.lanes);
  const [key, setKey] = useState(filters.key ?? "");
  useEffect(() => setKey(filters.key ?? ""), [filters.key]);
  function change(changes: { [name in keyof Filters]: Filters[name] | undefined }) {
    const next = Object.fromEntries(Object.entries({ ...filters, ...changes }).filter(([, value]) => value !== undefined));
    void navigate({ search: next, replace: true });
  }
  const changeKey = useDebouncedCallback((value: string) => change({ key: value.trim() || undefined }), 300);
  return (
    <div className={classes.filters}>
      <TextInput
        className={classes.key}
        aria-label="Key"
        placeholder="Key, exactly"
        leftSection={<SearchIcon />}
        value={key}
        onChange={(event) => {
          setKey(event.currentTarget.value);
          changeKey(event.currentTarget.value);
        }}
      />
      <MultiSelect
        className={classes.statuses}
        aria-label="Status"
        placeholder={filters.status ? "" : "Any status"}
        data={STATUSES.map((status) => ({ value: status, label: statusWord(status) }))}
        value={filters.status ?? []}
        onChange={(chosen) => change({ status: chosen.length > 0 ? (chosen as Status[]) : undefined })}
        clearable
      />
      <Select aria-label="Job" placeholder="Any job" data={[...jobs.keys()]} value={filters.job ?? null} onChange={(job) => change({ job: job ?? undefined })} clearable />
      <Select
        aria-label="Lane"
        placeholder="Any lane"
        data={lanes.map((lane) => lane.name)}
        value={filters.lane ?? null}
        onChange={(lane) => change({ lane: lane ?? undefined })}
        clearable
      />
      {Object.keys(filters).length > 0 && (
        <Button variant="subtle" color="gray" onClick={() => void navigate({ search: {}, replace: true })}>
          Clear
        </Button>
      )}
    </div>
  );
}

function Rows({ runs, filters, onEnd }: { runs: RunView[]; filters: Filters; onEnd: () => void }) {
  const list = useRef<HTMLUListElement>(null);
  // A run that has moved on since it was read may not fit any more.
  useLive((live) => (filters.status ? live.moves : 0));
  const shown = filters.status ? runs.filter((run) => filters.status?.includes(liveOf(run).status)) : runs;
  const virtual = useWindowVirtualizer({
    count: shown.length,
    estimateSize: () => ROW_HEIGHT,
    overscan: 10,
    scrollMargin: list.current?.offsetTop ?? 0,
    getItemKey: (index) => shown[index]?.id ?? index,
  });
  const items = virtual.getVirtualItems();
  const lastIndex = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (lastIndex >= shown.length - 10) onEnd();
  }, [lastIndex, shown.length, onEnd]);
  return (
    <ul ref={list} className={classes.rows} style={{ height: virtual.getTotalSize() }} aria-label="Runs">
      {items.map((item) => (
        <li
          key={item.key}
          ref={virtual.measureElement}
          data-index={item.index}
          aria-setsize={-1}
          aria-posinset={item.index + 1}
          className={classes.place}
          style={{ transform: `translateY(${item.start - virtual.options.scrollMargin}px)` }}
        >
          <RunRow run={shown[item.index] as RunView} />
        </li>
      ))}
    </ul>
  );
}

/** As the stream tells it now, if it tells anything of it. */
function liveOf(run: RunView): LiveRun {
  const active = live.runs.get(run.id);
  if (active) return active;
  const last = live.last.get(run.key);
  return last?.id === run.id ? last : toLive(run);
}

function RunRow({ run }: { run: RunView }) {
  const active = useLive((live) => live.runs.get(run.id));
  const last = useLive((live) => live.last.get(run.key));
  const shown = active ?? (last?.id === run.id ? last : toLive(run));
  const now = useNow();
  const reason = reasonOfEnd(shown);
  return (
    <Link to="/runs/$runId" params={{ runId: run.id }} className={classes.row} data-testid="run">
      <span className={classes.pill}>
        <Pill run={shown} />
      </span>
      <span className={classes.what} dir="auto">
        <b>{run.key === run.id ? run.job : run.key}</b>
        <span>{run.key === run.id ? "without a key" : run.job}</span>
      </span>
      <span className={classes.more}>
        {reason === null ? <Figures run={shown} /> : <span className={classes.reason} dir="auto">{reason}</span>}
      </span>
      <span className={classes.lane}>{run.lane}</span>
      <span className={classes.when}>
        {ago(shown.queued_at, now)}
        {shown.started_at && <span>{shown.ended_at ? "took" : "for"} {length((shown.ended_at ? Date.parse(shown.ended_at) : now) - Date.parse(shown.started_at))}</span>}
      </span>
    </Link>
  );
}
