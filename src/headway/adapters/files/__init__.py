"""Files on this machine: the data directory."""
