"""Submit runs, and hold, watch and steer them from outside."""
