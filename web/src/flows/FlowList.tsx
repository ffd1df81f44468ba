import { Button, Loader } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { answerOf, reasonOf } from "../api";
import { type FlowView, listFlows } from "../client";
import { AlertIcon, PlusIcon } from "../parts/icons";
import { Empty } from "../parts/Empty";
import { ago, moment, useNow } from "../time";
import { flowQuery } from "./calls";
import classes from "./FlowList.module.css";

const PAGE_COUNT = 100;
const SHOWN_COUNT_MAX = 1_000;
const AGAIN_MS = 10_000;

export function FlowList() {
  const [limit, setLimit] = useState(PAGE_COUNT);
  const { data, error, isPending } = useQuery({
    queryKey: ["flows", limit],
    queryFn: () => answerOf(listFlows({ query: { limit } })),
    refetchInterval: AGAIN_MS,
  });
  const flows = data?.flows ?? [];
  return (
    <>
      <div className={classes.head}>
        <div>
          <h1>Flows</h1>
          <p>A flow is a graph of steps; a task walks through it.</p>
        </div>
        <Button component={Link} to="/new-flow" leftSection={<PlusIcon />}>
          New flow
        </Button>
      </div>
      {error && !data && <Empty title="The flows cannot be read">{reasonOf(error)}</Empty>}
      {isPending && <Loader size="sm" aria-label="Reading the flows" />}
      {data && flows.length === 0 && (
        <Empty title="No flows yet">
          Publish the first one here, with “headway flow publish”, or from a program with “hw.flows.publish”.
        </Empty>
      )}
      {flows.length > 0 && (
        <ul className={classes.rows} aria-label="Flows">
          {flows.map((flow) => (
            <li key={flow.name}>
              <FlowRow flow={flow} />
            </li>
          ))}
        </ul>
      )}
      {flows.length === limit && limit < SHOWN_COUNT_MAX && (
        <Button variant="default" className={classes.more} onClick={() => setLimit(Math.min(SHOWN_COUNT_MAX, limit * 2))}>
          Show more
        </Button>
      )}
    </>
  );
}

function FlowRow({ flow }: { flow: FlowView }) {
  const now = useNow();
  return (
    <Link to="/flows/$name" params={{ name: flow.name }} className={classes.row} data-testid="flow">
      <b dir="auto">{flow.name}</b>
      <span className={classes.warnings}>{flow.version > 0 && <WarningCount flow={flow} />}</span>
      <span className={classes.version}>
        {flow.version > 0 ? `version ${flow.version}` : "not published"}
        {flow.latest > flow.version && <span>, draft {flow.latest}</span>}
      </span>
      <span className={classes.when} title={moment(flow.updated_at)}>
        {ago(flow.updated_at, now)}
      </span>
    </Link>
  );
}

function WarningCount({ flow }: { flow: FlowView }) {
  const { queryKey, queryFn } = flowQuery(flow.name);
  const { data } = useQuery({ queryKey: [...queryKey, flow.digest], queryFn, staleTime: 60_000 });
  const count = data?.warnings.length ?? 0;
  if (count === 0) return null;
  return (
    <>
      <AlertIcon size={14} /> {count === 1 ? "1 warning" : `${count} warnings`}
    </>
  );
}
