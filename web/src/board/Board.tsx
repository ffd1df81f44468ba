import { Button, SegmentedControl, TextInput } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { memo, useDeferredValue, useMemo, useState } from "react";
import { reasonOf } from "../api";
import { live, useLive } from "../live";
import { useJobs, useJobsKnown } from "../jobs";
import { Empty } from "../parts/Empty";
import { PlusIcon, SearchIcon } from "../parts/icons";
import { WindowRows } from "../parts/WindowRows";
import { isActive } from "../stream/model";
import { AddRow } from "./AddRow";
import classes from "./Board.module.css";
import { BoardRow } from "./BoardRow";
import { ExistingDialog } from "./ExistingDialog";
import { Limits } from "./Limits";

const ROW_HEIGHT = 65;
const WANTED = ["All", "Active", "Failed", "Inactive"] as const;
type Wanted = (typeof WANTED)[number];

export function Board() {
  const [search, setSearch] = useState("");
  const [wanted, setWanted] = useState<Wanted>("All");
  const [isAdding, setAdding] = useState(false);
  const keys = useLive((live) => live.rowKeys());
  const hasOlder = useLive((live) => live.hasOlderKeys);
  // Which rows are wanted changes with their states, and not with their figures.
  const moves = useLive((live) => (wanted === "All" ? 0 : live.moves));
  // The letter is there at once; the rows follow as soon as there is time for them.
  const sought = useDeferredValue(search);
  const shown = useMemo(() => fitting(keys, sought, wanted, moves), [keys, sought, wanted, moves]);
  const canAdd = useJobs().size > 0;
  const jobs = useJobsKnown();
  return (
    <>
      <div className={classes.head}>
        <h1>Board</h1>
        <Limits />
      </div>
      {keys.length > 0 && (
        <div className={classes.tools}>
          <TextInput
            className={classes.search}
            aria-label="Find a key"
            placeholder="Find a key"
            leftSection={<SearchIcon />}
            value={search}
            onChange={(event) => setSearch(event.currentTarget.value)}
          />
          <SegmentedControl aria-label="Which rows" data={[...WANTED]} value={wanted} onChange={(value) => setWanted(value as Wanted)} />
          <Button className={classes.add} leftSection={<PlusIcon />} onClick={() => setAdding(true)} disabled={!canAdd}>
            Add<span className={classes.wide}>&nbsp;a row</span>
          </Button>
        </div>
      )}
      {keys.length === 0 && (
        <Empty title="No rows yet">
          <p>
            A row is a key, such as an account or a conversation, with the job that works on it and its parameters.
            One run at a time works on a key; the others wait their turn.
          </p>
          <Button leftSection={<PlusIcon />} onClick={() => setAdding(true)} disabled={!canAdd}>
            Add the first row
          </Button>
          {jobs.isKnown && !canAdd && <p>This server has no jobs. Give it some: headway serve --app module:name</p>}
          {jobs.error && <p role="alert">Which jobs there are cannot be read. {reasonOf(jobs.error)}</p>}
        </Empty>
      )}
      {keys.length > 0 && shown.length === 0 && <Empty title="No row fits">Look for something else, or show all rows.</Empty>}
      <Rows keys={shown} />
      {hasOlder && (
        <p className={classes.older}>
          Older keys without a saved row are not shown here. <Link to="/runs">See all runs</Link>
        </p>
      )}
      <ExistingDialog />
      <AddRow isOpen={isAdding} onClose={() => setAdding(false)} />
    </>
  );
}

function fitting(keys: string[], sought: string, wanted: Wanted, _moves: number): string[] {
  const lower = sought.toLowerCase();
  if (lower === "" && wanted === "All") return keys;
  return keys.filter((key) => key.toLowerCase().includes(lower) && isWanted(key, wanted));
}

function isWanted(key: string, wanted: Wanted): boolean {
  const run = live.runOf(key);
  switch (wanted) {
    case "All":
      return true;
    case "Active":
      return run !== undefined && isActive(run.status);
    case "Failed":
      return run?.state === "Failed";
    case "Inactive":
      return run === undefined || !isActive(run.status);
  }
}

const Rows = memo(function Rows({ keys }: { keys: string[] }) {
  if (keys.length === 0) return null;
  return (
    <WindowRows label="Keys" count={keys.length} rowHeight={ROW_HEIGHT} keyOf={(index) => keys[index] ?? index} overscan={4} useFlushSync={false}>
      {(index) => <BoardRow rowKey={keys[index] as string} />}
    </WindowRows>
  );
});
