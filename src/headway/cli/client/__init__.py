"""How commands reach runs: the same requests, to a server or to a database."""
