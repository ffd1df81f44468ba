"""The run: its states, its place in the queues, its deadlines and its events."""
