"""The context that a job receives, and everything behind its methods."""
