"""The `headway` command. Its parts are imported when they are called, so that help is instant."""

import logging
import os
import select
import sys
from typing import Final

from cyclopts import App, CycloptsError

from headway.cli.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, exit_with_error
from headway.core.errors import Error

app: Final = App(
    name="headway",
    help="Runs long work one at a time per key, and never loses it.\n\n"
    "Commands ask the server at HEADWAY_URL, with HEADWAY_TOKEN if it wants one; without a server,"
    " the database.",
    print_error=False,
    exit_on_error=False,
)


def _add_command(group: App, place: str, name: str, help_text: str) -> None:
    """A command that is imported when it is called."""
    group.command(f"headway.cli.{place}", name=name, help=help_text)


def _add_group(name: str, help_text: str) -> App:
    group = App(name=name, help=help_text)
    app.command(group)
    return group


_add_command(app, "demo.demo:demo", "demo", "Watch runs and flows at work.")
_add_command(app, "serve:serve", "serve", "Serve runs over HTTP.")
_add_command(
    app,
    "doctor:doctor",
    "doctor",
    "Check that every promise is kept; ends with 1 when one is broken, with 2 when there is nothing"
    " that it could read, and with 5 when the database does not answer.",
)
_add_command(app, "worker:worker", "worker", "Serve services for flows to call.")
_add_command(app, "runs:explain", "explain", "Say why a run does not move.")
_add_command(
    app, "completion:completion", "completion", "Print what a shell needs to complete our words."
)

_runs: Final = _add_group("run", "Submit runs, watch them, talk to them, end them.")
_add_command(_runs, "runs:submit", "submit", "Submit a run, and print its id.")
_add_command(_runs, "runs:list_", "list", "List runs, the newest first.")
_add_command(_runs, "runs:get", "get", "Show all that is known of a run.")
_add_command(_runs, "watch:watch", "watch", "Show what a run does until it ends.")
_add_command(_runs, "runs:explain", "explain", "Say why a run does not move.")
_add_command(_runs, "runs:cancel", "cancel", "Ask a run to end.")
_add_command(_runs, "runs:send", "send", "Send a message to a run.")
_add_command(_runs, "runs:messages", "messages", "List the messages that were sent to a run.")
_add_command(_runs, "runs:resume", "resume", "Answer what a run asks.")
_add_command(_runs, "watch:events", "events", "Print what has happened to a run.")

_lanes: Final = _add_group("lane", "See lanes, set their limits, pause and clear them.")
_add_command(_lanes, "lanes:list_", "list", "List all lanes.")
_add_command(_lanes, "lanes:set_", "set", "Set a lane's limits.")
_add_command(_lanes, "lanes:pause", "pause", "Start no more runs of a lane.")
_add_command(_lanes, "lanes:resume", "resume", "Start runs of a paused lane again.")
_add_command(_lanes, "lanes:clear", "clear", "Cancel all runs that wait in a lane.")

_keys: Final = _add_group("key", "See and change what is saved for a key; stop all its runs.")
_add_command(_keys, "keys:list_", "list", "List the saved rows.")
_add_command(_keys, "keys:set_", "set", "Save what the key's next run is to be.")
_add_command(_keys, "keys:rm", "rm", "Forget what was saved for a key.")
_add_command(_keys, "keys:stop", "stop", "Cancel all runs of a key.")

_schedules: Final = _add_group("schedule", "See what runs again and again, pause it.")
_add_command(_schedules, "schedules:list_", "list", "List the schedules.")
_add_command(_schedules, "schedules:run", "run", "Start now what a schedule would start.")
_add_command(_schedules, "schedules:pause", "pause", "Let a schedule start nothing.")
_add_command(_schedules, "schedules:resume", "resume", "Let a paused schedule go on.")

_flows: Final = _add_group("flow", "Publish flows, look at them, start tasks.")
_add_command(_flows, "flows:validate", "validate", "Check a definition.")
_add_command(_flows, "flows:push", "push", "Publish a definition.")
_add_command(_flows, "flows:list_", "list", "List the flows.")
_add_command(_flows, "flows:show", "show", "Print a flow's definition.")
_add_command(_flows, "flows:graph", "graph", "Print a Mermaid diagram of a flow.")
_add_command(_flows, "flows:start", "start", "Start a task of a flow.")

_tasks: Final = _add_group("task", "Watch and steer the tasks of flows.")
_add_command(_tasks, "tasks:list_", "list", "List the tasks that moved last.")
_add_command(_tasks, "tasks:get", "get", "Show a task with its node runs.")
_add_command(_tasks, "tasks:watch", "watch", "Follow a task until it is over.")
_add_command(_tasks, "tasks:signal", "signal", "Send a signal to a task.")
_add_command(_tasks, "tasks:approve", "approve", "Answer a task's approval.")
_add_command(_tasks, "tasks:cancel", "cancel", "Ask for the end of a task.")
_add_command(_tasks, "tasks:rerun", "rerun", "Run a task again from a node.")

_database: Final = _add_group("db", "Look after the database.")
_add_command(_database, "database:upgrade", "upgrade", "Bring the schema to this version.")
_add_command(_database, "database:check", "check", "Say whether this program can use the schema.")
_add_command(
    _database,
    "database:accept",
    "accept-primary",
    "Make servers use a primary that lacks commits they have seen.",
)
_add_command(_database, "database:prune", "prune", "Remove what is over and old enough.")

_config: Final = _add_group("config", "Show the settings, and reload them.")
_add_command(_config, "config:show", "show", "Show every setting and where it was said.")
_add_command(_config, "config:reload", "reload", "Make the server read its configuration again.")


def main() -> None:
    """Run the command; what it cannot do ends in one sentence on stderr and a code that says why.

    With `--json` that sentence is in a JSON object, with a code that does not change.
    """
    # A person reads the sentence below, and not beside it what the parts have logged.
    logging.getLogger("headway").addHandler(logging.NullHandler())
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # Closed before we began.
                sys.stdout.flush()
    except BrokenPipeError as error:
        if _has_reader():  # It was another pipe, or a connection.
            exit_with_error(error, sys.argv[1:])
        # What Python still holds goes nowhere, without a complaint at its very end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_BROKEN_PIPE)
    except (CycloptsError, Error, OSError) as error:
        exit_with_error(error, sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _has_reader() -> bool:
    """Whether somebody can still read our output."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)  # That all readers are gone is told unasked.
    return not output.poll(0)
