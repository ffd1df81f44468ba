"""Workers: remote programs that offer services to flows."""
