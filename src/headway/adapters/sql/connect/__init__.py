"""Connections to the database: addresses, drivers, failover, clocks and errors.

See docs/internals/connections.md.
"""
