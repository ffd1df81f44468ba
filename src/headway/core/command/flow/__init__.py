"""Commands on flows, their tasks and workers."""
