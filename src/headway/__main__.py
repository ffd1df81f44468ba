"""`python -m headway` is the `headway` command."""

from headway.cli.main import main

main()
