"""The engine: claim runs, execute them, and recover the runs of lost instances."""
