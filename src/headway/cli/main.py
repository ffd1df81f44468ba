"""The `headway` command. Its parts are imported when they are called, so that help is instant."""

import sys
from typing import Final

from cyclopts import App

from headway.core.errors import Error

EXIT_USAGE: Final = 2

app: Final = App(name="headway", help="Runs long work one at a time per key, and never loses it.")
database: Final = App(name="db", help="Look after the database.")
app.command(database)
app.command("headway.cli.demo:demo", name="demo", help="Watch a small board of runs at work.")
database.command(
    "headway.cli.database:upgrade", name="upgrade", help="Bring the schema to this version."
)
database.command(
    "headway.cli.database:check", name="check", help="Say whether this program can use the schema."
)


def main() -> None:
    """Run the command; a mistake or an outage ends in one sentence on stderr and exit code 2."""
    try:
        app()
    except Error as error:
        print(f"headway: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except KeyboardInterrupt:
        sys.exit(130)
