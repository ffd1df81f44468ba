"""HTTP in, service or port call, HTTP out. No rules of its own."""
