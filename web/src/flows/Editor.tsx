/** A definition as text. What the server finds wrong stands beside it, and leads to its line. */
import { Button, TextInput, UnstyledButton } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo, useRef, useState } from "react";
import { type Fault, queries, reasonOf, Refusal } from "../api";
import type { PublishedView } from "../client";
import { AlertIcon, CheckIcon, CrossIcon } from "../parts/icons";
import { check, publish } from "./calls";
import classes from "./Editor.module.css";
import { lineOf, readText, spotOf, type Text } from "./places";

const CHECK_MS = 400;
const SHOWN_COUNT_MAX = 100;
const LINE_HEIGHT = 20;

interface Props {
  /** Null: it is asked for. */
  name: string | null;
  initial: string;
  revision: number;
  onPublished: (made: PublishedView) => void;
}

/** It keeps what it began with: whoever publishes meanwhile takes nothing from under anybody's hands. */
export function Editor({ name, onPublished, ...begun }: Props) {
  const [{ initial, revision }] = useState(begun);
  const [text, setText] = useState(initial);
  const [given, setGiven] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
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
  function jump(fault: Fault) {
    const spot = read.fault ? { from: read.fault.at, to: read.fault.at + 1 } : spotOf(read, fault.place);
    if (area.current && spot) select(area.current, text, spot.from, spot.to);
  }
  const canPublish = flowName !== "" && read.fault === null && found.faults?.length === 0 && (name === null || text !== initial);
  return (
    <div className={classes.columns}>
      <div className={classes.main}>
        {name === null && (
          <TextInput label="Name" description="Tasks are started by it." value={given} onChange={(event) => setGiven(event.currentTarget.value)} maxLength={255} withAsterisk />
        )}
        <TextArea area={area} text={text} onChange={setText} faultLines={linesOf(text, read, found.faults ?? [])} isFaulty={(found.faults?.length ?? 0) > 0} />
        <div className={classes.foot}>
          <Button onClick={() => publishing.mutate()} loading={publishing.isPending} disabled={!canPublish}>
            {name === null ? "Publish" : "Publish a new version"}
          </Button>
          {text !== initial && (
            <Button variant="subtle" color="gray" onClick={() => setText(initial)}>
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
  if (read.fault) return { faults: [{ place: "definition", problem: read.fault.problem }], warnings: [], reason: null };
  if (settled !== text || (!data && !error)) return { faults: null, warnings: [], reason: null };
  if (error instanceof Refusal && error.faults.length > 0) return { faults: error.faults, warnings: [], reason: null };
  if (error) return { faults: null, warnings: [], reason: reasonOf(error) };
  return { faults: [], warnings: data?.warnings ?? [], reason: null };
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
  return lineOf(text, read.fault?.at ?? spotOf(read, fault.place)?.from ?? 0);
}

function linesOf(text: string, read: Text, faults: Fault[]): number[] {
  return [...new Set(faults.slice(0, SHOWN_COUNT_MAX).map((fault) => lineOfFault(text, read, fault)))];
}

/** Mark it, and bring it into sight. */
function select(area: HTMLTextAreaElement, text: string, from: number, to: number): void {
  const firstLineEnd = text.indexOf("\n", from);
  area.focus();
  area.setSelectionRange(from, firstLineEnd === -1 ? to : Math.min(to, firstLineEnd));
  area.scrollTop = Math.max(0, (lineOf(text, from) - 1) * LINE_HEIGHT - area.clientHeight / 3);
}

interface AreaProps {
  area: React.RefObject<HTMLTextAreaElement | null>;
  text: string;
  onChange: (text: string) => void;
  faultLines: number[];
  isFaulty: boolean;
}

function TextArea({ area, text, onChange, faultLines, isFaulty }: AreaProps) {
  const gutter = useRef<HTMLDivElement>(null);
  const lineCount = useMemo(() => text.split("\n").length, [text]);
  const numbers = useMemo(() => Array.from({ length: lineCount }, (_, index) => index + 1).join("\n"), [lineCount]);
  return (
    <div className={classes.editor}>
      <div className={classes.gutter} aria-hidden="true">
        <div ref={gutter}>
          <pre>{numbers}</pre>
          {faultLines.map((line) => (
            <span key={line} className={classes.faultLine} style={{ top: (line - 1) * LINE_HEIGHT }} />
          ))}
        </div>
      </div>
      <textarea
        ref={area}
        className={classes.text}
        aria-label="Definition"
        aria-invalid={isFaulty}
        spellCheck={false}
        wrap="off"
        value={text}
        onChange={(event) => onChange(event.currentTarget.value)}
        onScroll={({ currentTarget: { scrollTop } }) => {
          if (gutter.current) gutter.current.style.transform = `translateY(${-scrollTop}px)`;
        }}
      />
    </div>
  );
}
