"""What the operating system gives: randomness, and this process's own name."""
