"""Queries of the readers."""
