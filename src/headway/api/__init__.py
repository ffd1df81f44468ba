"""The HTTP API: translates requests to calls of services and ports. It has no rules itself."""
