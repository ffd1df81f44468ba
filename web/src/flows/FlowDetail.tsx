import { Button, Loader, Select, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { answerOf, reasonOf } from "../api";
import { type IssueView, type FlowDetailView, listVersions } from "../client";
import { AlertIcon, PlayIcon } from "../parts/icons";
import { Crumbs } from "../parts/Crumbs";
import { Empty } from "../parts/Empty";
import { TaskRows } from "../tasks/TaskRows";
import { flowQuery } from "./calls";
import { Drawing } from "./Drawing";
import { Editor } from "./Editor";
import classes from "./FlowDetail.module.css";
import { type FlowGraph, readGraph } from "./graph";
import { NodePanel } from "./NodePanel";
import { useStanding } from "./standing";
import { StartTask } from "./StartTask";
import { EXAMPLE, written } from "./written";

const TABS = ["graph", "definition", "tasks"] as const;
export type Tab = (typeof TABS)[number];

interface FlowSearch {
  tab?: Tab;
  version?: number;
}

export function flowSearchOf(search: Record<string, unknown>): FlowSearch {
  const found: FlowSearch = {};
  const tab = TABS.find((one) => one === search.tab);
  if (tab) found.tab = tab;
  if (typeof search.version === "number" && Number.isInteger(search.version) && search.version > 0) found.version = search.version;
  return found;
}

export function FlowDetail() {
  const { name } = useParams({ from: "/flows/$name" });
  const { tab = "graph", version } = useSearch({ from: "/flows/$name" });
  const navigate = useNavigate({ from: "/flows/$name" });
  const { data: flow, error } = useQuery(flowQuery(name, version));
  const graph = useMemo(() => readGraph(flow?.definition), [flow?.definition]);
  if (error && !flow) {
    return (
      <Empty title="This flow cannot be shown">
        <p>{reasonOf(error)}</p>
        <Link to="/flows">All flows</Link>
      </Empty>
    );
  }
  if (!flow) return <Loader size="sm" aria-label="Reading the flow" />;
  return (
    <>
      <Crumbs>{[<Link key="flows" to="/flows">Flows</Link>, flow.name]}</Crumbs>
      <Head flow={flow} version={version} />
      <Warnings warnings={flow.warnings} />
      <Tabs value={tab} onChange={(next) => void navigate({ search: (before) => ({ ...before, tab: next as Tab }), replace: true })} keepMounted={false}>
        <Tabs.List>
          <Tabs.Tab value="graph">Graph</Tabs.Tab>
          <Tabs.Tab value="definition">Definition</Tabs.Tab>
          <Tabs.Tab value="tasks">Tasks</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="graph" className={classes.panel}>
          <GraphCard graph={graph} name={flow.name} />
        </Tabs.Panel>
        <Tabs.Panel value="definition" className={classes.panel}>
          <EditorOf key={`${flow.name} ${version ?? ""}`} flow={flow} onPublished={() => void navigate({ search: { tab: "graph" } })} />
        </Tabs.Panel>
        <Tabs.Panel value="tasks" className={classes.panel}>
          <TaskRows flow={flow.name} />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}

/** The editor goes on with the flow that it began with, whatever is published meanwhile. */
function EditorOf({ flow, onPublished }: { flow: FlowDetailView; onPublished: () => void }) {
  const [base, setBase] = useState(flow);
  return (
    <>
      {base.revision !== flow.revision && (
        <p className={classes.moved} role="status">
          Version {flow.latest} has come meanwhile.{" "}
          <Button size="compact-xs" variant="default" onClick={() => setBase(flow)}>
            Take it, and drop what is written here
          </Button>
        </p>
      )}
      <Editor
        key={base.revision}
        name={base.name}
        initial={base.definition === null ? EXAMPLE : written(base.definition)}
        revision={base.revision}
        onPublished={onPublished}
      />
    </>
  );
}

function Head({ flow, version }: { flow: FlowDetailView; version: number | undefined }) {
  const navigate = useNavigate({ from: "/flows/$name" });
  const [isStarting, setStarting] = useState(false);
  const { data } = useQuery({
    queryKey: ["flow", flow.name, "versions", flow.latest],
    queryFn: () => answerOf(listVersions({ path: { name: flow.name } })),
  });
  const versions = data?.versions ?? [];
  const shown = version ?? flow.version;
  const isDraft = versions.find((one) => one.version === shown)?.status === "draft";
  return (
    <div className={classes.head}>
      <h1 dir="auto">{flow.name}</h1>
      {versions.length > 1 ? (
        <Select
          className={classes.version}
          size="xs"
          aria-label="Version"
          allowDeselect={false}
          data={versions.map((one) => ({ value: String(one.version), label: `Version ${one.version}${wordOf(one.version, one.status, flow)}` }))}
          value={String(shown)}
          onChange={(chosen) => void navigate({ search: (before) => ({ ...before, version: Number(chosen) }), replace: true })}
        />
      ) : (
        <span className={classes.only}>{shown > 0 ? `Version ${shown}` : "Not published yet"}</span>
      )}
      <Button className={classes.start} leftSection={<PlayIcon size={14} />} disabled={shown === 0 || isDraft} onClick={() => setStarting(true)}>
        Start a task
      </Button>
      {isStarting && <StartTask flow={flow} version={shown} onClose={() => setStarting(false)} />}
    </div>
  );
}

function wordOf(version: number, status: string, flow: FlowDetailView): string {
  if (version === flow.version) return ", the published one";
  return status === "draft" ? ", a draft" : "";
}

function Warnings({ warnings }: { warnings: IssueView[] }) {
  if (warnings.length === 0) return null;
  return (
    <ul className={classes.warnings} aria-label="Warnings">
      {warnings.slice(0, 5).map(({ path, problem }) => (
        <li key={`${path} ${problem}`} dir="auto">
          <AlertIcon size={14} />
          <span>
            <code>{path}</code> {problem}
          </span>
        </li>
      ))}
      {warnings.length > 5 && <li>and {warnings.length - 5} more: see the definition</li>}
    </ul>
  );
}

function GraphCard({ graph, name }: { graph: FlowGraph; name: string }) {
  const [selected, setSelected] = useState<string | null>(null);
  const standing = useStanding(name);
  const node = selected === null ? undefined : graph.nodes.get(selected);
  if (graph.nodes.size === 0) return <Empty title="Nothing to draw">This flow has no version yet. Write one under “Definition”.</Empty>;
  return (
    <div className={classes.card}>
      <Drawing graph={graph} label={`Graph of ${name}`} lit={standing} selected={selected} onSelect={setSelected} />
      {node ? <NodePanel node={node} /> : <p className={classes.hint}>Coloured: where tasks are now. Choose a node to see what the definition says of it.</p>}
    </div>
  );
}

export function NewFlow() {
  const navigate = useNavigate();
  return (
    <>
      <Crumbs>{[<Link key="flows" to="/flows">Flows</Link>, "New"]}</Crumbs>
      <div className={classes.head}>
        <h1>New flow</h1>
      </div>
      <Editor name={null} initial={EXAMPLE} revision={0} onPublished={({ name }) => void navigate({ to: "/flows/$name", params: { name } })} />
    </>
  );
}
