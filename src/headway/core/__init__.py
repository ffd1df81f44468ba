"""Pure decisions: values in, values out. No I/O, clock, randomness, async or logging."""
