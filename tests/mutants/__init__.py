"""Remove one safeguard at a time, and see that the tests notice."""
