import { Button, Loader, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { answerOf, queries, reasonOf } from "../api";
import { FLOW_JOB } from "../tasks/words";
import { getRun, type RunDetails, type RunView } from "../client";
import { InterruptCard } from "../inbox/InterruptCard";
import { useInterrupts } from "../inbox/interrupts";
import { useLive } from "../live";
import { useNews } from "../news";
import { Crumbs } from "../parts/Crumbs";
import { Empty } from "../parts/Empty";
import { Figures } from "../parts/Figures";
import { useFocusOn } from "../parts/focusOn";
import { Pill } from "../parts/Pill";
import { Values } from "../parts/Values";
import { Whole } from "../parts/Whole";
import { useSubject } from "../shell/title";
import { isActive, toLive } from "../stream/model";
import { ago, length, moment, useNow } from "../time";
import { useHistory } from "./history";
import { Files } from "./Files";
import { Lines } from "./Lines";
import { logText } from "./logText";
import { MessageBox } from "./MessageBox";
import { RunButtons } from "./RunButtons";
import classes from "./RunDetail.module.css";
import { Timeline } from "./Timeline";
import { Ending, useWhy, Why } from "./Why";

export function RunDetail() {
  const { runId } = useParams({ from: "/runs/$runId" });
  const { data: run, error } = useQuery({
    queryKey: ["run", runId],
    queryFn: () => answerOf(getRun({ path: { run_id: runId } })),
  });
  useNews(runId, () => {
    for (const name of ["run", "explain", "files"]) void queries.invalidateQueries({ queryKey: [name, runId] });
  });
  const history = useHistory(runId);
  if (error && !run) {
    return (
      <Empty title="This run cannot be shown">
        <p>{reasonOf(error)}</p>
        <Link to="/runs">All runs</Link>
      </Empty>
    );
  }
  if (!run) return <Loader size="sm" aria-label="Reading the run" />;
  return <Detail run={run} history={history} />;
}

function Detail({ run: read, history }: { run: RunDetails; history: ReturnType<typeof useHistory> }) {
  const shown = useLive((live) => live.runs.get(read.id) ?? live.ended.get(read.id)) ?? toLive(read);
  const run = { ...read, status: shown.status };
  const active = isActive(shown.status);
  useSubject(`${run.key === run.id ? run.job : run.key}, ${moment(run.started_at ?? run.queued_at)}`);
  const { events } = history;
  const said = useMemo(() => events.filter((event) => event.type === "run_log"), [events]);
  const happened = useMemo(() => events.filter((event) => event.type !== "run_log" && event.type !== "run_progress"), [events]);
  return (
    <>
      <Crumbs>
        <Link to="/runs">Runs</Link>
        {run.key === run.id ? (
          run.job
        ) : (
          <Link to="/runs" search={{ key: run.key }}>
            {run.key}
          </Link>
        )}
      </Crumbs>
      <div className={classes.head}>
        <h1 dir="auto" tabIndex={-1}>{run.key === run.id ? run.job : run.key}</h1>
        <Pill run={shown} />
        <span className={classes.since}>{sinceWords(run)}</span>
        <RunButtons run={run} />
      </div>
      {active ? <Why run_id={run.id} /> : <Ending of={shown} />}
      <Questions run_id={run.id} />
      <div className={classes.columns}>
        <div className={classes.main}>
          <Card>
            <Timeline run={run} events={events} />
            <Figures run={shown} />
          </Card>
          {run.traceback !== null && <Traceback text={run.traceback} />}
          <Card>
            <Tabs defaultValue="log" keepMounted={false}>
              <Tabs.List>
                <Tabs.Tab value="log">Log</Tabs.Tab>
                <Tabs.Tab value="events">What happened</Tabs.Tab>
              </Tabs.List>
              <Gaps history={history} />
              <Tabs.Panel value="log" className={classes.panel}>
                <Lines events={said} label="Log" empty={history.isWhole ? "The job has not said anything." : ""} />
                {said.length > 0 && (
                  <p className={classes.gap}>
                    <Whole text={() => logText(said)} name="log" what="the whole log" />
                  </p>
                )}
              </Tabs.Panel>
              <Tabs.Panel value="events" className={classes.panel}>
                <Lines events={happened} label="What happened" empty={history.isWhole ? "Nothing is known any more: events are kept for a while only." : ""} />
              </Tabs.Panel>
            </Tabs>
            <MessageBox key={run.id} run={run} isActive={active} />
          </Card>
        </div>
        <aside className={classes.side} aria-label="About this run">
          <Facts run={run} />
          <Files run={run} />
          <Documents run={run} />
        </aside>
      </div>
    </>
  );
}

/** The traceback of the last failed attempt, for the author of the job. */
function Traceback({ text }: { text: string }) {
  return (
    <Card>
      <details className={classes.traceback}>
        <summary>Traceback</summary>
        <pre tabIndex={0} aria-label="Traceback">
          {text}
        </pre>
        <Whole text={() => text} name="traceback" what="the traceback" />
      </details>
    </Card>
  );
}

function sinceWords(run: RunView): string {
  return run.started_at === null ? `queued ${moment(run.queued_at)}` : `started ${moment(run.started_at)}`;
}

function Card({ children }: { children: ReactNode }) {
  return <section className={classes.card}>{children}</section>;
}

/** What is not shown, and why: nothing is passed over in silence. */
function Gaps({ history: { isPruned, problem, again } }: { history: ReturnType<typeof useHistory> }) {
  return (
    <>
      {isPruned && <p className={classes.gap}>Older lines are gone: events are kept for a while only.</p>}
      {problem !== null && (
        <p className={classes.gap} role="alert">
          Not everything could be read. {problem}{" "}
          <Button size="compact-xs" variant="default" onClick={again}>
            Try again
          </Button>
        </p>
      )}
    </>
  );
}

function Questions({ run_id }: { run_id: string }) {
  const questions = useInterrupts().data?.filter((one) => one.run_id === run_id) ?? [];
  const list = useFocusOn(questions.map(({ call_id }) => call_id));
  return (
    <div ref={list}>
      {questions.map((one) => (
        <div key={one.call_id} data-asked={one.call_id}>
          <InterruptCard interrupt={one} isInRun />
        </div>
      ))}
    </div>
  );
}

function Facts({ run }: { run: RunView }) {
  const now = useNow();
  return (
    <dl className={classes.facts}>
      <Fact name="Job">
        {run.job === FLOW_JOB ? (
          <Link to="/tasks/$taskId" params={{ taskId: run.id }}>
            A task of a flow
          </Link>
        ) : (
          run.job
        )}
      </Fact>
      <Fact name="Lane">
        <Link to="/lanes">{run.lane}</Link>
      </Fact>
      <Fact name="Launched by">{run.mode === "continue" ? "Continue" : "Start"}</Fact>
      <Fact name="Queued">
        <time dateTime={run.queued_at} title={run.queued_at}>
          {moment(run.queued_at)}
        </time>
      </Fact>
      {run.started_at && <Fact name="Waited">{length(Date.parse(run.started_at) - Date.parse(run.queued_at))}</Fact>}
      {run.started_at && (
        <Fact name={run.ended_at ? "Took" : "Runs for"}>{length((run.ended_at ? Date.parse(run.ended_at) : now) - Date.parse(run.started_at))}</Fact>
      )}
      {run.ended_at && <Fact name="Ended">{ago(run.ended_at, now)}</Fact>}
      {!run.ended_at && <Fact name="Last change">{ago(run.updated_at, now)}</Fact>}
      {run.run_deadline_at && !run.ended_at && <Fact name="Must end by">{moment(run.run_deadline_at)}</Fact>}
      <Holder run={run} />
      {run.attempt > 1 && <Fact name="Attempt">{run.attempt}</Fact>}
      {run.unread_count > 0 && <Fact name="Unread messages">{run.unread_count}</Fact>}
      {run.continued_from && (
        <Fact name="Continues">
          <RunLink run_id={run.continued_from} />
        </Fact>
      )}
      {run.parent_id && (
        <Fact name="Started by run">
          <RunLink run_id={run.parent_id} />
        </Fact>
      )}
      <Fact name="Id">
        <code className={classes.id}>{run.id}</code>
      </Fact>
    </dl>
  );
}

/** The program that has its claim. */
function Holder({ run }: { run: RunView }) {
  const why = useWhy(run.id, run.status === "running");
  const id = why?.gate === "running" && run.status === "running" ? why.holder_ids[0] : undefined;
  if (id === undefined) return null;
  return (
    <Fact name="Held by">
      <Link to="/workers">
        <code className={classes.id}>{id.slice(0, 13)}…</code>
      </Link>
    </Fact>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function RunLink({ run_id }: { run_id: string }) {
  return (
    <Link to="/runs/$runId" params={{ runId: run_id }}>
      {run_id.slice(0, 13)}…
    </Link>
  );
}

function Documents({ run }: { run: RunView }) {
  const documents: [string, unknown][] = [
    ["Result", run.result],
    ["Error", run.error],
    ["Parameters", run.params],
    ["Checkpoint", run.checkpoint],
  ];
  return documents
    .filter(([, document]) => document !== null && document !== undefined)
    .map(([name, document]) => (
      <section key={name} className={classes.document}>
        <h2>{name}</h2>
        <Values value={document} label={name} />
      </section>
    ));
}
