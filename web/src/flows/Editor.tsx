/** A definition as text. What the server finds wrong stands beside it, and leads to its line. */
import { Button, TextInput, UnstyledButton } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useMemo, useRef, useState } from "react";
import { type Fault, queries, reasonOf, Refusal } from "../api";
import type { PublishedFlowView } from "../client";
import { AlertIcon, CheckIcon, CrossIcon } from "../parts/icons";
import { check, publish } from "./calls";
import type { CodeHandle, Marks } from "./CodeArea";
import classes from "./Editor.module.css";
import { lineOf, readText, type Spot, spotOf, type Text } from "./places";

const CodeArea = lazy(() => import("./CodeArea"));

const CHECK_MS = 400;
const SHOWN_COUNT_MAX = 100;

interface Props {
  /** Null: it is asked for. */
  name: string | null;
  initial: string;
  revision: number;
  onPublished: (made: PublishedFlowView) => void;
}

/** It keeps what it began with: whoever publishes meanwhile takes nothing from under anybody's hands. */
export function Editor({ name, onPublished, ...begun }: Props) {
  const [{ initial, revision }] = useState(begun);
  const [text, setText] = useState(initial);
  const [given, setGiven] = useState("");
  const area = useRef<CodeHandle>(null);
  const read = useMemo(() => readText(text), [text]);
  const found = useFindings(text, read);
  const flowName = name ?? given.trim();
  const publishing = useMutation({
    mutationFn: () => publish(flowName, text, revision),
    onSuccess: (made) => {
      void queries.invalidateQueries({ queryKey: ["flow", made.name] });
      void queries.invalidateQueries({ queryKey: ["flows"] });
      onPublished(made);
    },
  });
  const marks = useMemo(() => marksOf(text, read, found), [text, read, found]);
  const jump = (fault: Fault) => area.current?.select(shownSpot(text, read, fault));
  const canPublish = flowName !== "" && read.fault === null && found.faults?.length === 0 && (name === null || text !== initial);
  return (
    <div className={classes.columns}>
      <div className={classes.main}>
        {name === null && (
          <TextInput label="Name" description="Tasks are started by it." value={given} onChange={(event) => setGiven(event.currentTarget.value)} maxLength={255} withAsterisk />
        )}
        <div className={classes.editor}>
          <Suspense fallback={<div role="status" aria-label="Opening the editor" />}>
            <CodeArea ref={area} label="Definition" initial={initial} marks={marks} onChange={setText} />
          </Suspense>
        </div>
        <div className={classes.foot}>
          <Button onClick={() => publishing.mutate()} loading={publishing.isPending} disabled={!canPublish}>
            {name === null ? "Publish" : "Publish a new version"}
          </Button>
          {text !== initial && (
            <Button variant="subtle" color="gray" onClick={() => area.current?.replace(initial)}>
              Undo all
            </Button>
          )}
          {publishing.error && (
            <span className={classes.reason} role="alert">
              {refusalWords(publishing.error)}
            </span>
          )}
        </div>
      </div>
      <aside className={classes.side} aria-label="What the server says of it">
        <Verdict found={found} />
        <FaultList title="Faults" tone="fault" faults={found.faults ?? []} text={text} read={read} onJump={jump} />
        <FaultList title="Warnings" tone="warning" faults={found.warnings} text={text} read={read} onJump={jump} />
      </aside>
    </div>
  );
}

interface Findings {
  /** Null: it is not known yet. */
  faults: Fault[] | null;
  warnings: Fault[];
  reason: string | null;
}

/** What is not JSON is found here, and everything else by the server. */
function useFindings(text: string, read: Text): Findings {
  const [settled] = useDebouncedValue(text, CHECK_MS);
  const { data, error } = useQuery({
    queryKey: ["flow-check", settled],
    queryFn: () => check(settled),
    enabled: read.fault === null && settled === text,
    gcTime: 0,
    retry: false,
  });
  const isSettled = settled === text;
  return useMemo(() => {
    if (read.fault) return { faults: [{ place: "definition", problem: read.fault.problem }], warnings: [], reason: null };
    if (!isSettled || (!data && !error)) return { faults: null, warnings: [], reason: null };
    if (error instanceof Refusal && error.faults.length > 0) return { faults: error.faults, warnings: [], reason: null };
    if (error) return { faults: null, warnings: [], reason: reasonOf(error) };
    return { faults: [], warnings: data?.warnings ?? [], reason: null };
  }, [read, isSettled, data, error]);
}

function refusalWords(error: unknown): string {
  if (error instanceof Refusal && error.status === 412) return "Somebody has published another version meanwhile. Copy your text, and open the newest one.";
  return reasonOf(error);
}

function Verdict({ found: { faults, warnings, reason } }: { found: Findings }) {
  let [words, tone, icon]: [string, string, ReactNode] = ["Looking at it…", "plain", null];
  if (reason !== null) [words, tone, icon] = [reason, "fault", <CrossIcon key="icon" />];
  else if (faults !== null && faults.length > 0) [words, tone, icon] = ["It cannot be published yet.", "fault", <CrossIcon key="icon" />];
  else if (faults !== null && warnings.length > 0) [words, tone, icon] = ["It can be published, with warnings.", "warning", <AlertIcon key="icon" />];
  else if (faults !== null) [words, tone, icon] = ["It can be published.", "good", <CheckIcon key="icon" />];
  return (
    <p className={classes.verdict} data-tone={tone} role="status" data-testid="verdict">
      {icon}
      {words}
    </p>
  );
}

interface ListProps {
  title: string;
  tone: "fault" | "warning";
  faults: Fault[];
  text: string;
  read: Text;
  onJump: (fault: Fault) => void;
}

function FaultList({ title, tone, faults, text, read, onJump }: ListProps) {
  if (faults.length === 0) return null;
  return (
    <section className={classes.faults} aria-label={title}>
      <ul>
        {faults.slice(0, SHOWN_COUNT_MAX).map((fault) => (
          <li key={`${fault.place} ${fault.problem}`}>
            <UnstyledButton className={classes.fault} data-tone={tone} onClick={() => onJump(fault)} data-testid="fault">
              <span className={classes.place}>
                {fault.place} <span>line {lineOfFault(text, read, fault)}</span>
              </span>
              <span dir="auto">{fault.problem}</span>
            </UnstyledButton>
          </li>
        ))}
      </ul>
      {faults.length > SHOWN_COUNT_MAX && <p>and {faults.length - SHOWN_COUNT_MAX} more</p>}
    </section>
  );
}

function lineOfFault(text: string, read: Text, fault: Fault): number {
  return lineOf(text, shownSpot(text, read, fault).from);
}

/** Where a fault is shown: a place of many lines by its first. */
function shownSpot(text: string, read: Text, fault: Fault): Spot {
  const { from, to } = (read.fault ? { from: read.fault.at, to: read.fault.at + 1 } : spotOf(read, fault.place)) ?? { from: 0, to: 0 };
  const lineEnd = text.indexOf("\n", from);
  return { from, to: Math.min(to, lineEnd === -1 ? text.length : lineEnd) };
}

function marksOf(text: string, read: Text, { faults, warnings }: Findings): Marks {
  const marked = (severity: "error" | "warning") => (fault: Fault) => ({ ...shownSpot(text, read, fault), severity, message: fault.problem });
  return {
    text,
    found: [...(faults ?? []).slice(0, SHOWN_COUNT_MAX).map(marked("error")), ...warnings.slice(0, SHOWN_COUNT_MAX).map(marked("warning"))],
  };
}
