"""`headway completion`: what a shell needs to complete our words."""

from typing import Literal

from headway.cli.main import app


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes commands and options, for the shell to read.

    Parameters
    ----------
    shell
        Which shell. For bash: `source <(headway completion bash)`.
    """
    print(app.generate_completion(shell=shell))
