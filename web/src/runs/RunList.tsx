import { Button, Loader, MultiSelect, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useState } from "react";
import { reasonOf } from "../api";
import type { RunView } from "../client";
import { useJobs } from "../jobs";
import { useLive } from "../live";
import { Empty } from "../parts/Empty";
import { Figures } from "../parts/Figures";
import { Pill, statusWord } from "../parts/Pill";
import { SearchIcon } from "../parts/icons";
import { WindowRows } from "../parts/WindowRows";
import { type Status, toLive } from "../stream/model";
import { ago, length, useNow } from "../time";
import { type Filters, STATUSES } from "./filters";
import { PAGE_COUNT, useRunPages } from "./pages";
import { reasonOfEnd } from "./reasons";
import classes from "./RunList.module.css";

const ROW_HEIGHT = 49;
const TOP_PX = 100;

export function RunList() {
  const filters = useSearch({ from: "/runs" });
  return (
    <>
      <div className={classes.head}>
        <h1>Runs</h1>
      </div>
      <FilterBar filters={filters} />
      <List key={JSON.stringify(filters)} filters={filters} />
    </>
  );
}

function List({ filters: given }: { filters: Filters }) {
  const [filters] = useState(given); // Others make another list.
  const pages = useRunPages(filters, isAtTop);
  const { runs, offset, newerCount } = pages;
  const isFiltered = Object.keys(filters).length > 0;
  const { showNewest } = pages;
  useEffect(() => {
    if (newerCount === 0) return;
    const look = () => isAtTop() && showNewest();
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, [newerCount, showNewest]);
  return (
    <>
      {pages.error && <Empty title="The runs cannot be read">{reasonOf(pages.error)}</Empty>}
      {pages.isSuccess && runs.length === 0 && (
        <Empty title={isFiltered ? "No run fits" : "No runs yet"}>
          {isFiltered ? "Take a filter away to see more." : "Start one on the board, or submit one through the API."}
        </Empty>
      )}
      {newerCount > 0 && <Newer count={newerCount} onShow={showNewest} />}
      {runs.length > 0 && <Rows runs={runs} offset={offset} onEnd={pages.readOn} onBeginning={pages.readBack} />}
      {pages.isReading && (
        <div className={classes.loading}>
          <Loader size="sm" aria-label="Reading more runs" />
        </div>
      )}
    </>
  );
}

function isAtTop(): boolean {
  return scrollY < TOP_PX;
}

/** Under whoever has scrolled down nothing moves: what came meanwhile is told. */
function Newer({ count, onShow }: { count: number; onShow: () => void }) {
  function show() {
    scrollTo(0, 0);
    onShow();
  }
  return (
    <Button className={classes.newer} size="xs" radius="xl" onClick={show}>
      {count < PAGE_COUNT ? `${count} newer` : `At least ${PAGE_COUNT} newer`}
    </Button>
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

interface RowsProps {
  runs: RunView[];
  /** How many others come before them. */
  offset: number;
  onEnd: () => void;
  onBeginning: () => void;
}

function Rows({ runs, offset, onEnd, onBeginning }: RowsProps) {
  const count = offset + runs.length;
  const look = useCallback(
    (first: number, last: number) => {
      if (first < offset) onBeginning();
      else if (last >= count - 10) onEnd();
    },
    [offset, count, onEnd, onBeginning],
  );
  return (
    <WindowRows label="Runs" count={count} rowHeight={ROW_HEIGHT} keyOf={(index) => runs[index - offset]?.id ?? index} isOpen onSeen={look}>
      {(index) => {
        const run = runs[index - offset];
        return run ? <RunRow run={run} /> : <div className={classes.row} aria-hidden="true" />;
      }}
    </WindowRows>
  );
}

/** As the stream tells it now, if it is active; what ends is written into the list. */
function RunRow({ run }: { run: RunView }) {
  const active = useLive((live) => live.runs.get(run.id));
  const shown = active ?? toLive(run);
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
