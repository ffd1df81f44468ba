"""Services of the operating system: clock, randomness, signals and file locks."""
