"""Connections: addresses, drivers, failover, clocks and errors."""
