"""The engine: claim runs, execute them, sweep up after lost instances."""
