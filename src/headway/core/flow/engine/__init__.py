"""The step engine of flows."""
