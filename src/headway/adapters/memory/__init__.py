"""Adapters that store their state in this process."""
