"""The run: its statuses, its queues, its deadlines and its events."""
