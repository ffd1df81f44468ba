"""The HTTP API: translates requests into calls of services and ports. It contains no rules."""
