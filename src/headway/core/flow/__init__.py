"""Flows: graphs as data, and the pure engine that executes them."""
