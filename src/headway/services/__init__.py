"""One use case or one loop per file: read, decide in the core, apply through the ports."""
