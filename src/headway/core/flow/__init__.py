"""Flows: graphs as data, and the pure engine that walks them."""
