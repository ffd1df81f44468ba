"""The HTTP client that calls workers."""
