"""The write path: queue, writer thread, loading and writing batches."""
