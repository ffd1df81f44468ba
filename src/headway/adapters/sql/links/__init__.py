"""How the writer reaches each driver."""
