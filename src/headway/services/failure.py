"""What a function that is not ours has raised, in words."""

from headway.core.document import storable


def in_words(error: BaseException) -> str:
    """Its name and what it says of itself, as text that can be stored."""
    try:
        words = str(error)
    except Exception:  # Its own words go wrong; its name does not.
        words = ""
    return storable(f"{type(error).__name__}: {words}" if words else type(error).__name__)
