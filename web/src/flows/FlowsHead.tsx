/** What the lists of flows and of tasks have in common. */
import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { PlusIcon } from "../parts/icons";
import classes from "./FlowsHead.module.css";

export function FlowsHead() {
  return (
    <>
      <div className={classes.head}>
        <div>
          <h1>Flows</h1>
          <p>A flow is a graph of steps; a task walks through it.</p>
        </div>
        <Button component={Link} to="/new-flow" leftSection={<PlusIcon />}>
          New flow
        </Button>
      </div>
      <nav className={classes.lists} aria-label="Flows and tasks">
        <Link to="/flows" activeOptions={{ exact: true }} activeProps={{ "aria-current": "page" }}>
          Flows
        </Link>
        <Link to="/tasks" activeOptions={{ exact: true }} activeProps={{ "aria-current": "page" }}>
          All tasks
        </Link>
      </nav>
    </>
  );
}
