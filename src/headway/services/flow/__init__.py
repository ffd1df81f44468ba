"""Flow tasks: driven by whoever has claimed their run."""
