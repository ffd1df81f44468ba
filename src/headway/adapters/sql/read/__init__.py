"""The readers and their queries."""
