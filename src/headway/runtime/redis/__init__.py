"""The runtime store in Redis or Valkey, on one server or a cluster."""
