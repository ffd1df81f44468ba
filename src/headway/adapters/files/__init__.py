"""Files on this host: the data directory and the mirror of runs."""
