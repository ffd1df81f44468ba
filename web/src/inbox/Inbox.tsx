import { reasonOf } from "../api";
import { Empty } from "../parts/Empty";
import { useApprovals } from "../tasks/approvals";
import { ApprovalCard } from "./ApprovalCard";
import classes from "./Inbox.module.css";
import { InterruptCard } from "./InterruptCard";
import { SHOWN_COUNT_MAX, useInterrupts } from "./interrupts";

export function Inbox() {
  const { data, error } = useInterrupts();
  const tasks = useApprovals();
  return (
    <div className={classes.inbox}>
      <h1>Inbox</h1>
      {error && <Empty title="The inbox cannot be read">{reasonOf(error)}</Empty>}
      {data?.length === 0 && tasks.length === 0 && <Empty title="Nobody waits for you">When a run or a task asks a person, the question appears here.</Empty>}
      {data?.map((one) => (
        <InterruptCard key={`${one.run_id} ${one.call_id}`} interrupt={one} />
      ))}
      {tasks.map((task) => (
        <ApprovalCard key={task.id} task={task} />
      ))}
      {data?.length === SHOWN_COUNT_MAX && <p>These have waited the longest; there are more.</p>}
    </div>
  );
}
