"""The `headway` command. Its parts are imported when they are called, so that help is instant."""

import logging
import sys
from typing import Final

from cyclopts import App, CycloptsError

from headway.cli.faults import end_with
from headway.core.errors import Error

EXIT_INTERRUPTED: Final = 130

app: Final = App(
    name="headway",
    help="Runs long work one at a time per key, and never loses it.",
    print_error=False,
    exit_on_error=False,
)
database: Final = App(name="db", help="Look after the database.")
app.command(database)
app.command("headway.cli.demo:demo", name="demo", help="Watch a small board of runs at work.")
app.command(
    "headway.cli.doctor:doctor",
    name="doctor",
    help="Check that every promise is kept; ends with 1 when one is broken.",
)
app.command("headway.cli.explain:explain", name="explain", help="Say why a run does not move.")
app.command("headway.cli.serve:serve", name="serve", help="Serve runs over HTTP.")
app.command("headway.cli.worker:worker", name="worker", help="Serve services for flows to call.")
flow: Final = App(name="flow", help="Publish flows, look at them, start tasks.")
app.command(flow)
flow.command("headway.cli.flow:validate", name="validate", help="Check a definition.")
flow.command("headway.cli.flow:push", name="push", help="Publish a definition.")
flow.command("headway.cli.flow:list_flows", name="list", help="List the flows.")
flow.command("headway.cli.flow:show", name="show", help="Print a flow's definition.")
flow.command("headway.cli.flow:graph", name="graph", help="Print a Mermaid diagram of a flow.")
flow.command("headway.cli.flow:start", name="start", help="Start a task of a flow.")
task: Final = App(name="task", help="Watch and steer the tasks of flows.")
app.command(task)
task.command("headway.cli.task:list_tasks", name="list", help="List the tasks that moved last.")
task.command("headway.cli.task:get", name="get", help="Show a task with its node runs.")
task.command("headway.cli.task:watch", name="watch", help="Follow a task until it is over.")
task.command("headway.cli.task:signal", name="signal", help="Send a signal to a task.")
task.command("headway.cli.task:approve", name="approve", help="Answer a task's approval.")
task.command("headway.cli.task:cancel", name="cancel", help="Ask for the end of a task.")
task.command("headway.cli.task:rerun", name="rerun", help="Run a task again from a node.")
database.command(
    "headway.cli.database:upgrade", name="upgrade", help="Bring the schema to this version."
)
database.command(
    "headway.cli.database:check", name="check", help="Say whether this program can use the schema."
)


def main() -> None:
    """Run the command; a mistake or an outage ends in one sentence on stderr and exit code 2.

    With `--json` that sentence is in a JSON object, with a code that does not change.
    """
    # A person reads the sentence below, and not beside it what the parts have logged.
    logging.getLogger("headway").addHandler(logging.NullHandler())
    try:
        app()
    except (CycloptsError, Error, OSError) as error:
        end_with(error, sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
