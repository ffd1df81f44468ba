"""What lives and ends with this process."""
