import { Button, Menu } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { answerOf, reasonOf, Refusal } from "../api";
import { type Existing, ExistingOutput } from "../board/ExistingOutput";
import { cancel, type RunView, submit } from "../client";
import { live } from "../live";
import { ForwardIcon, PlayIcon, StopIcon } from "../parts/icons";
import { useKeptFocus } from "../parts/keptFocus";
import { isActive } from "../stream/model";
import { FLOW_JOB } from "../tasks/words";
import classes from "./RunButtons.module.css";

export function RunButtons({ run }: { run: RunView }) {
  const focus = useKeptFocus<HTMLDivElement>(run.status !== "cancelling");
  return (
    <div className={classes.buttons} {...focus}>
      {isActive(run.status) ? <CancelRun run={run} /> : run.job === FLOW_JOB ? <TaskLink run={run} /> : <RunAgain run={run} />}
    </div>
  );
}

/** A task is run again from one of its nodes, which its own page shows. */
function TaskLink({ run }: { run: RunView }) {
  return (
    <Link className={classes.link} to="/tasks/$taskId" params={{ taskId: run.id }}>
      Run again from a node of the task
    </Link>
  );
}

function CancelRun({ run }: { run: RunView }) {
  const cancelling = useMutation({
    mutationFn: (files: "keep" | "delete") => answerOf(cancel({ path: { run_id: run.id }, body: { files } })),
  });
  const isAsked = run.status === "cancelling";
  return (
    <>
      {cancelling.error && <Reason error={cancelling.error} />}
      <Menu position="bottom-end" shadow="md" disabled={isAsked}>
        <Menu.Target>
          <Button size="xs" variant="default" leftSection={<StopIcon size={14} />} disabled={isAsked} loading={cancelling.isPending}>
            {isAsked ? "Cancelling…" : "Cancel"}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>What becomes of this run's files?</Menu.Label>
          <Menu.Item onClick={() => cancelling.mutate("keep")}>Cancel and keep them</Menu.Item>
          <Menu.Item color="red" onClick={() => cancelling.mutate("delete")}>
            Cancel and delete them
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </>
  );
}

interface Again {
  mode: "start" | "continue";
  existing?: Existing;
}

/** The same job with the same parameters, as a new run. */
function RunAgain({ run }: { run: RunView }) {
  const navigate = useNavigate();
  const hasKey = run.key !== run.id;
  const starting = useMutation({
    mutationFn: ({ mode, existing }: Again) => {
      const params = run.params as Record<string, unknown>;
      const key = hasKey ? { key: run.key } : {};
      return answerOf(submit({ body: { job: run.job, lane: run.lane, mode, params, ...key, ...(existing ? { on_existing_output: existing } : {}) } }));
    },
    onSuccess: (next) => {
      live.put(next);
      void navigate({ to: "/runs/$runId", params: { runId: next.id } });
    },
  });
  const { error, isPending } = starting;
  const hasOutput = error instanceof Refusal && error.code === "output_exists";
  return (
    <>
      {error && !hasOutput && <Reason error={error} />}
      <Button size="xs" variant="light" leftSection={<PlayIcon size={14} />} loading={isPending} onClick={() => starting.mutate({ mode: "start" })}>
        Run again
      </Button>
      {hasKey && (
        <Button size="xs" variant="default" leftSection={<ForwardIcon size={14} />} disabled={isPending} onClick={() => starting.mutate({ mode: "continue" })}>
          Continue
        </Button>
      )}
      {hasOutput && (
        <ExistingOutput
          rowKey={run.key}
          told={error.message}
          isBusy={isPending}
          onStart={(existing) => starting.mutate({ mode: "start", existing })}
          onContinue={() => starting.mutate({ mode: "continue" })}
          onClose={() => starting.reset()}
        />
      )}
    </>
  );
}

function Reason({ error }: { error: unknown }) {
  return (
    <span className={classes.reason} role="alert">
      {reasonOf(error)}
    </span>
  );
}
