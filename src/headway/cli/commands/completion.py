"""`headway completion`: completion scripts for shells."""

from typing import Literal

from headway.cli.main import app


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes commands and options.

    Parameters
    ----------
    shell
        The shell. For bash, run: `source <(headway completion bash)`.
    """
    print(app.generate_completion(shell=shell))
