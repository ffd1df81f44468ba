"""headway runs long work one-at-a-time per key, a-few-at-a-time overall, and never loses it."""
