"""Use cases and background loops, one per file: read, decide in the core, apply via the ports."""
