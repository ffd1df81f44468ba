"""Many processes on one database, killed at random; what they did is checked afterwards."""
