/** Which address shows what. The part after `#` never reaches the server: any prefix will do. */
import { createHashHistory, createRootRoute, createRoute, createRouter, redirect } from "@tanstack/react-router";
import { Board } from "./board/Board";
import { FlowDetail, flowSearchOf, NewFlow } from "./flows/FlowDetail";
import { FlowList } from "./flows/FlowList";
import { Inbox } from "./inbox/Inbox";
import { Lanes } from "./lanes/Lanes";
import { filtersOf } from "./runs/filters";
import { RunDetail } from "./runs/RunDetail";
import { RunList } from "./runs/RunList";
import { NotFound, Shell } from "./shell/Shell";
import { AllTasks } from "./tasks/AllTasks";
import { TaskDetail } from "./tasks/TaskDetail";
import { Workers } from "./workers/Workers";

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });

const start = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/board" });
  },
});
const board = createRoute({ getParentRoute: () => root, path: "/board", component: Board });
const runs = createRoute({
  getParentRoute: () => root,
  path: "/runs",
  component: RunList,
  validateSearch: filtersOf,
});
const run = createRoute({ getParentRoute: () => root, path: "/runs/$runId", component: RunDetail });
const inbox = createRoute({ getParentRoute: () => root, path: "/inbox", component: Inbox });
const lanes = createRoute({ getParentRoute: () => root, path: "/lanes", component: Lanes });
const flows = createRoute({ getParentRoute: () => root, path: "/flows", component: FlowList });
const newFlow = createRoute({ getParentRoute: () => root, path: "/new-flow", component: NewFlow });
const flow = createRoute({
  getParentRoute: () => root,
  path: "/flows/$name",
  component: FlowDetail,
  validateSearch: flowSearchOf,
});
const tasks = createRoute({ getParentRoute: () => root, path: "/tasks", component: AllTasks });
const task = createRoute({ getParentRoute: () => root, path: "/tasks/$taskId", component: TaskDetail });
const workers = createRoute({ getParentRoute: () => root, path: "/workers", component: Workers });

export const router = createRouter({
  routeTree: root.addChildren([start, board, runs, run, inbox, lanes, flows, newFlow, flow, tasks, task, workers]),
  history: createHashHistory(),
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
