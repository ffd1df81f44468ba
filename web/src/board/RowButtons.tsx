import { ActionIcon, Button, Menu, Tooltip } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useJobs } from "../jobs";
import { CopyIcon, DotsIcon, ForwardIcon, OpenIcon, PasteIcon, PlayIcon, StopIcon, TrashIcon } from "../parts/icons";
import { useKeptFocus } from "../parts/keptFocus";
import { paste, remove, start, stop } from "./actions";
import { copied, copy, useHasCopied } from "./clipboard";
import { useNote } from "./notes";
import classes from "./RowButtons.module.css";
import type { Row } from "./rows";

export function RowButtons({ row }: { row: Row }) {
  const { isBusy, existing } = useNote(row.key);
  const focus = useKeptFocus<HTMLDivElement>(!isBusy && existing === null && row.run?.status !== "cancelling");
  return (
    <div className={classes.buttons} data-buttons {...focus}>
      {row.isLocked ? <CancelButton row={row} /> : <StartButtons row={row} />}
      <MoreMenu row={row} />
    </div>
  );
}

function StartButtons({ row }: { row: Row }) {
  const { isBusy } = useNote(row.key);
  const { key, job, values, canContinue } = row;
  if (job === null || row.isTask || row.isKeyless) return null;
  return (
    <>
      <Button size="xs" className={classes.brief ?? ""} variant="light" leftSection={<PlayIcon size={14} />} loading={isBusy} onClick={() => void start(key, job, "start", values)}>
        Start new
      </Button>
      <Tooltip label={canContinue ? "Go on where the last run stopped" : "There is nothing to continue yet"}>
        <Button
          size="xs"
          className={classes.brief ?? ""}
          variant="default"
          leftSection={<ForwardIcon size={14} />}
          disabled={isBusy}
          // Not “disabled”: that would keep its reason from being told.
          data-disabled={!canContinue || undefined}
          aria-disabled={!canContinue || undefined}
          onClick={() => canContinue && void start(key, job, "continue", values)}
        >
          Continue
        </Button>
      </Tooltip>
    </>
  );
}

function CancelButton({ row }: { row: Row }) {
  const { isBusy } = useNote(row.key);
  const { key, run } = row;
  if (run === undefined) return null;
  const isCancelling = run.status === "cancelling";
  const button = (
    <Button size="xs" variant="default" leftSection={<StopIcon size={14} />} disabled={isCancelling} loading={isBusy}>
      {isCancelling ? "Cancelling…" : "Cancel"}
    </Button>
  );
  if (run.status === "queued") {
    return (
      <Button size="xs" variant="default" leftSection={<StopIcon size={14} />} loading={isBusy} onClick={() => void stop(key, run.id, "keep")}>
        Cancel
      </Button>
    );
  }
  return (
    <Menu position="bottom-end" withinPortal shadow="md" disabled={isCancelling}>
      <Menu.Target>{button}</Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>What becomes of this run's files?</Menu.Label>
        <Menu.Item onClick={() => void stop(key, run.id, "keep")}>Cancel and keep them</Menu.Item>
        <Menu.Item color="red" onClick={() => void stop(key, run.id, "delete")}>
          Cancel and delete them
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function MoreMenu({ row }: { row: Row }) {
  const hasCopied = useHasCopied();
  const schema = useJobs().get(row.job ?? "")?.parameters;
  const navigate = useNavigate();
  const { key, job, run, isLocked, isSaved, isTask, isKeyless, values } = row;
  function pasteHere() {
    const found = copied();
    if (found !== null && job !== null) void paste(key, job, found);
  }
  return (
    <Menu position="bottom-end" withinPortal shadow="md">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="md" aria-label={`More for ${key}`}>
          <DotsIcon />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<CopyIcon />} disabled={isLocked} onClick={() => copy(values, schema)}>
          Copy parameters
        </Menu.Item>
        {!isKeyless && (
          <Menu.Item leftSection={<PasteIcon />} disabled={isLocked || !hasCopied} onClick={pasteHere}>
            Paste parameters
          </Menu.Item>
        )}
        <Menu.Divider />
        <Menu.Item
          leftSection={<OpenIcon />}
          disabled={run === undefined}
          onClick={() => void navigate({ to: "/runs/$runId", params: { runId: run?.id ?? "" } })}
        >
          {isLocked ? "See the run" : "See the last run"}
        </Menu.Item>
        {isTask && run && (
          <Menu.Item leftSection={<OpenIcon />} onClick={() => void navigate({ to: "/tasks/$taskId", params: { taskId: run.id } })}>
            See the task
          </Menu.Item>
        )}
        {!isKeyless && (
          <Menu.Item leftSection={<OpenIcon />} onClick={() => void navigate({ to: "/runs", search: { key } })}>
            All runs of this key
          </Menu.Item>
        )}
        {isSaved && (
          <>
            <Menu.Divider />
            <Menu.Item leftSection={<TrashIcon />} color="red" disabled={isLocked} onClick={() => void remove(key)}>
              Remove the row
            </Menu.Item>
          </>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
