/** A definition as text. What the server finds wrong stands beside it, and leads to its line. */
import { Button, TextInput, UnstyledButton } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useMemo, useRef, useState } from "react";
import { type Issue, queries, reasonOf, Refusal } from "../api";
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
  const jump = (issue: Issue) => area.current?.select(shownSpot(text, read, issue));
  const canPublish = flowName !== "" && read.error === null && found.errors?.length === 0 && (name === null || text !== initial);
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
        <IssueList title="Errors" tone="error" issues={found.errors ?? []} text={text} read={read} onJump={jump} />
        <IssueList title="Warnings" tone="warning" issues={found.warnings} text={text} read={read} onJump={jump} />
      </aside>
    </div>
  );
}

interface Findings {
  /** Null: it is not known yet. */
  errors: Issue[] | null;
  warnings: Issue[];
  reason: string | null;
}

/** What is not JSON is found here, and everything else by the server. */
function useFindings(text: string, read: Text): Findings {
  const [settled] = useDebouncedValue(text, CHECK_MS);
  const { data, error } = useQuery({
    queryKey: ["flow-check", settled],
    queryFn: () => check(settled),
    enabled: read.error === null && settled === text,
    gcTime: 0,
    retry: false,
  });
  const isSettled = settled === text;
  return useMemo(() => {
    if (read.error) return { errors: [{ path: "definition", problem: read.error.problem }], warnings: [], reason: null };
    if (!isSettled || (!data && !error)) return { errors: null, warnings: [], reason: null };
    if (error instanceof Refusal && error.issues.length > 0) return { errors: error.issues, warnings: [], reason: null };
    if (error) return { errors: null, warnings: [], reason: reasonOf(error) };
    return { errors: [], warnings: data?.warnings ?? [], reason: null };
  }, [read, isSettled, data, error]);
}

function refusalWords(error: unknown): string {
  if (error instanceof Refusal && error.status === 412) return "Somebody has published another version meanwhile. Copy your text, and open the newest one.";
  return reasonOf(error);
}

function Verdict({ found: { errors, warnings, reason } }: { found: Findings }) {
  let [words, tone, icon]: [string, string, ReactNode] = ["Looking at it…", "plain", null];
  if (reason !== null) [words, tone, icon] = [reason, "error", <CrossIcon key="icon" />];
  else if (errors !== null && errors.length > 0) [words, tone, icon] = ["It cannot be published yet.", "error", <CrossIcon key="icon" />];
  else if (errors !== null && warnings.length > 0) [words, tone, icon] = ["It can be published, with warnings.", "warning", <AlertIcon key="icon" />];
  else if (errors !== null) [words, tone, icon] = ["It can be published.", "good", <CheckIcon key="icon" />];
  return (
    <p className={classes.verdict} data-tone={tone} role="status" data-testid="verdict">
      {icon}
      {words}
    </p>
  );
}

interface ListProps {
  title: string;
  tone: "error" | "warning";
  issues: Issue[];
  text: string;
  read: Text;
  onJump: (issue: Issue) => void;
}

function IssueList({ title, tone, issues, text, read, onJump }: ListProps) {
  if (issues.length === 0) return null;
  return (
    <section className={classes.issues} aria-label={title}>
      <ul>
        {issues.slice(0, SHOWN_COUNT_MAX).map((issue) => (
          <li key={`${issue.path} ${issue.problem}`}>
            <UnstyledButton className={classes.issue} data-tone={tone} onClick={() => onJump(issue)} data-testid="issue">
              <span className={classes.path}>
                {issue.path} <span>line {lineOfIssue(text, read, issue)}</span>
              </span>
              <span dir="auto">{issue.problem}</span>
            </UnstyledButton>
          </li>
        ))}
      </ul>
      {issues.length > SHOWN_COUNT_MAX && <p>and {issues.length - SHOWN_COUNT_MAX} more</p>}
    </section>
  );
}

function lineOfIssue(text: string, read: Text, issue: Issue): number {
  return lineOf(text, shownSpot(text, read, issue).from);
}

/** Where an issue is shown: at its first line if it has many. */
function shownSpot(text: string, read: Text, issue: Issue): Spot {
  const { from, to } = (read.error ? { from: read.error.at, to: read.error.at + 1 } : spotOf(read, issue.path)) ?? { from: 0, to: 0 };
  const lineEnd = text.indexOf("\n", from);
  return { from, to: Math.min(to, lineEnd === -1 ? text.length : lineEnd) };
}

function marksOf(text: string, read: Text, { errors, warnings }: Findings): Marks {
  const marked = (severity: "error" | "warning") => (issue: Issue) => ({ ...shownSpot(text, read, issue), severity, message: issue.problem });
  return {
    text,
    found: [...(errors ?? []).slice(0, SHOWN_COUNT_MAX).map(marked("error")), ...warnings.slice(0, SHOWN_COUNT_MAX).map(marked("warning"))],
  };
}
