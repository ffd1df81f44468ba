"""Commands: every possible write, one module per subject."""
