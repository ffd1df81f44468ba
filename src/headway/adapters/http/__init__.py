"""Out to workers, over HTTP."""
