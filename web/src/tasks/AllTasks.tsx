/** The tasks of all flows (R5.10). */
import { FlowsHead } from "../flows/FlowsHead";
import { TaskRows } from "./TaskRows";

export function AllTasks() {
  return (
    <>
      <FlowsHead />
      <TaskRows />
    </>
  );
}
