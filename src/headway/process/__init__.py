"""Process-wide set-up, and the guard against forked copies of a process."""
