"""Removes one safeguard of the source at a time and checks that a test fails."""
