"""The `headway` command. Commands are imported when they are called, so help is instant.

The help texts are here and not in the docstrings of the commands, because listing them must not
import the commands. The first paragraph of a text is also the line in the list of commands.
"""

import logging
import os
import select
import sys
from typing import Final, NamedTuple

from cyclopts import App, CycloptsError

from headway.cli.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, exit_with_error
from headway.core.errors import Error


class _Command(NamedTuple):
    name: str
    target: str
    """`module:function` below `headway.cli`."""
    help_text: str


class _Group(NamedTuple):
    name: str
    help_text: str
    commands: tuple[_Command, ...]


_EXPLAIN: Final = _Command(
    "explain",
    "commands.run_commands:explain",
    "Explain why a run does not start or continue.\n\n"
    "Prints what the run waits for, which runs hold it up, and what to do.",
)
_TOP_COMMANDS: Final = (
    _Command(
        "demo",
        "demo.run_demo:demo",
        "Start a demo: a server, a worker, five runs and three flow tasks.\n\n"
        "Everything runs on this host in a temporary folder, which is removed at the end. On a"
        " terminal the demo asks you to approve an order, and then serves its web page until"
        " Ctrl-C. In a pipe it approves the order itself and exits.",
    ),
    _Command(
        "serve",
        "commands.serve:serve",
        "Execute your jobs, and serve the HTTP API and the web page, until Ctrl-C.\n\n"
        "Example: headway serve --app jobs:hw",
    ),
    _Command(
        "doctor",
        "commands.doctor_command:doctor",
        "Check the database for violations of headway's guarantees.\n\n"
        "Changes nothing, and can run beside working servers. Exit codes: 0 no violations,"
        " 1 violations (one line each), 2 there is no database or no headway schema in it,"
        " 5 the database is unavailable.",
    ),
    _Command(
        "worker",
        "commands.worker_command:worker",
        "Serve services that flows call, until Ctrl-C.\n\n"
        "A worker registers with the server and also offers the built-in services transform, sum,"
        " route and echo.\n\n"
        "Example: headway worker work:services",
    ),
    _EXPLAIN,
    _Command(
        "completion",
        "commands.completion:completion",
        "Print a script that completes commands and options in your shell.",
    ),
)
_RUN_COMMANDS: Final = (
    _Command(
        "submit",
        "commands.run_commands:submit",
        "Submit a run of a job, and print its id.\n\n"
        "Example: headway run submit mirror url=https://example.org --key ann\n\n"
        "Exit code 3: the key is busy or the lane is full.",
    ),
    _Command("list", "commands.run_commands:list_", "List runs, newest first."),
    _Command("get", "commands.run_commands:get", "Show all fields of a run."),
    _Command(
        "watch",
        "commands.watch:watch",
        "Show the state, progress and events of a run until it ends.\n\n"
        "Exit codes: 0 the run succeeded, 1 it ended in another way.",
    ),
    _EXPLAIN,
    _Command(
        "cancel",
        "commands.run_commands:cancel",
        "Cancel a run.\n\n"
        "Prints `canceled` if the run has ended, and `requested` or `already_requested` if its job"
        " has yet to stop. Exit code 3: the run had already ended.",
    ),
    _Command(
        "send",
        "commands.run_commands:send",
        "Send a message to a run.\n\n"
        "Exit code 3: the job does not accept messages now; the reason is printed.",
    ),
    _Command(
        "messages",
        "commands.run_commands:messages",
        "List the messages sent to a run, and whether its job has read them.",
    ),
    _Command(
        "resume",
        "commands.run_commands:resume",
        "Answer a question of a run.\n\nExit code 3: the run has no such open question.",
    ),
    _Command("events", "commands.watch:events", "Print the events of a run, one per line."),
)
_LANE_COMMANDS: Final = (
    _Command(
        "list",
        "commands.lane_commands:list_",
        "List all lanes with their limits and the number of their runs.",
    ),
    _Command(
        "set",
        "commands.lane_commands:set_",
        "Set the limits of a lane.\n\n"
        "Limits that are not given do not change. A lower limit does not interrupt running runs.",
    ),
    _Command(
        "pause",
        "commands.lane_commands:pause",
        "Pause a lane, so that no more of its runs start.\n\nRunning runs continue.",
    ),
    _Command("resume", "commands.lane_commands:resume", "Resume a paused lane."),
    _Command(
        "clear",
        "commands.lane_commands:clear",
        "Cancel all runs of a lane that have not started.\n\nRuns that have started continue.",
    ),
)
_KEY_COMMANDS: Final = (
    _Command("list", "commands.key_commands:list_", "List the saved keys."),
    _Command(
        "set",
        "commands.key_commands:set_",
        "Save the job and the parameters for the next run of a key.\n\n"
        "Exit code 3: the key has an active run.",
    ),
    _Command(
        "rm",
        "commands.key_commands:rm",
        "Remove the saved job and parameters of a key.\n\nExit code 3: the key has an active run.",
    ),
    _Command(
        "stop",
        "commands.key_commands:stop",
        "Cancel all runs of a key.\n\n"
        "The queued runs are canceled first, so that none of them starts.",
    ),
)
_SCHEDULE_COMMANDS: Final = (
    _Command(
        "list", "commands.schedule_commands:list_", "List the schedules and their next start times."
    ),
    _Command(
        "run",
        "commands.schedule_commands:run",
        "Start the run of a schedule now, and print its id.",
    ),
    _Command(
        "pause",
        "commands.schedule_commands:pause",
        "Pause a schedule, so that it starts no runs.\n\nRunning runs continue.",
    ),
    _Command(
        "resume",
        "commands.schedule_commands:resume",
        "Resume a paused schedule.\n\nStart times that passed during the pause are skipped.",
    ),
)
_FLOW_COMMANDS: Final = (
    _Command(
        "validate",
        "commands.flow_commands:validate",
        "Check the definition of a flow, without a database.\n\n"
        "Exit code 1: the definition has errors.",
    ),
    _Command(
        "push",
        "commands.flow_commands:push",
        "Publish a definition as the newest version of a flow.",
    ),
    _Command("list", "commands.flow_commands:list_", "List the flows."),
    _Command("show", "commands.flow_commands:show", "Print the definition of a flow."),
    _Command("graph", "commands.flow_commands:graph", "Print a Mermaid diagram of a flow."),
    _Command(
        "start",
        "commands.flow_commands:start",
        "Start a task of a flow, and print its id.\n\n"
        "A server, or another program that has opened the database, drives the task.",
    ),
)
_TASK_COMMANDS: Final = (
    _Command("list", "commands.task_commands:list_", "List tasks, most recently changed first."),
    _Command("get", "commands.task_commands:get", "Show a task and its node runs."),
    _Command(
        "watch",
        "commands.task_commands:watch",
        "Print the node runs of a task until it ends.\n\n"
        "Exit codes: 0 the task succeeded, 1 it ended in another way.",
    ),
    _Command(
        "signal",
        "commands.task_commands:signal",
        "Set a key of a task's shared state, and wake the task.",
    ),
    _Command(
        "approve", "commands.task_commands:approve", "Answer the approval that a task waits for."
    ),
    _Command(
        "cancel",
        "commands.task_commands:cancel",
        "Cancel a task.\n\n"
        "Prints `canceled` if the task has ended, and `requested` or `already_requested` if it has"
        " yet to stop. Exit code 3: the task had already ended.",
    ),
    _Command(
        "rerun",
        "commands.task_commands:rerun",
        "Start a new task from a node of an old one, and print its id.\n\n"
        "The new task begins with the shared state of the old one.",
    ),
)
_DATABASE_COMMANDS: Final = (
    _Command(
        "upgrade",
        "commands.database_commands:upgrade",
        "Create the schema, or upgrade it to this version of headway.\n\n"
        "Safe to repeat, and to run from several hosts at once.",
    ),
    _Command(
        "check",
        "commands.database_commands:check",
        "Check whether this version of headway can use the schema. Changes nothing.",
    ),
    _Command(
        "accept-primary",
        "commands.database_commands:accept",
        "Make servers use a primary that lacks commits they have seen.\n\n"
        "Use it after a failover or a restore: until then, running servers refuse such a primary."
        " Exactly one of the configured addresses must accept writes. The commits that it lacks are"
        " lost.",
    ),
    _Command(
        "prune",
        "commands.database_commands:prune",
        "Remove ended runs, events and idempotency keys that are older than the retention.\n\n"
        "Servers do this by themselves, a little at a time. This command removes everything at"
        " once.",
    ),
)
_CONFIG_COMMANDS: Final = (
    _Command(
        "show",
        "commands.config_commands:show",
        "Show every setting, its value and its source. Secrets are hidden.",
    ),
    _Command(
        "reload",
        "commands.config_commands:reload",
        "Make the server read its configuration again, and print the changes.\n\n"
        "Without a server, apply the limits of lanes that are configured here to the database.",
    ),
)
_GROUPS: Final = (
    _Group("run", "Submit, watch, message and cancel runs.", _RUN_COMMANDS),
    _Group("lane", "Show lanes, set their limits, pause and clear them.", _LANE_COMMANDS),
    _Group("key", "Show and change saved keys, and stop all runs of a key.", _KEY_COMMANDS),
    _Group("schedule", "Show, start, pause and resume schedules.", _SCHEDULE_COMMANDS),
    _Group("flow", "Check, publish and show flows, and start tasks.", _FLOW_COMMANDS),
    _Group("task", "Watch, signal, approve and cancel tasks of flows.", _TASK_COMMANDS),
    _Group("db", "Upgrade, check and prune the database.", _DATABASE_COMMANDS),
    _Group("config", "Show the settings, and reload them.", _CONFIG_COMMANDS),
)


def _add_commands(parent: App, commands: tuple[_Command, ...]) -> None:
    for command in commands:
        parent.command(f"headway.cli.{command.target}", name=command.name, help=command.help_text)


def _build_app() -> App:
    root = App(
        name="headway",
        help="Durable background jobs: one run per key at a time, and no run is ever lost.\n\n"
        "Commands talk to the server at HEADWAY_URL, with the token in HEADWAY_TOKEN. If"
        " HEADWAY_URL is not set, they use the configured database directly.\n\n"
        "To see headway at work, run: headway demo",
        print_error=False,
        exit_on_error=False,
    )
    _add_commands(root, _TOP_COMMANDS)
    for group in _GROUPS:
        subcommands = App(name=group.name, help=group.help_text)
        _add_commands(subcommands, group.commands)
        root.command(subcommands)
    return root


app: Final = _build_app()


def main() -> None:
    """Run the command. An error becomes one sentence on stderr and an exit code.

    With `--json` that sentence is in a JSON object, with a code that is stable across versions.
    """
    # The sentence on stderr is the only report; log records of the library would repeat it.
    logging.getLogger("headway").addHandler(logging.NullHandler())
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # None if it was closed before the program started.
                sys.stdout.flush()
    except BrokenPipeError as error:
        if _has_reader():  # The error is from another pipe, or a connection.
            exit_with_error(error, sys.argv[1:])
        # Discard the buffered output. Otherwise Python reports the broken pipe again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_BROKEN_PIPE)
    except (CycloptsError, Error, OSError) as error:
        exit_with_error(error, sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _has_reader() -> bool:
    """Return True if standard output still has a reader."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)  # POLLERR and POLLHUP are always reported.
    return not output.poll(0)
