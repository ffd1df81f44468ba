"""Many processes on one database, killed at random; their effects are checked afterwards."""
