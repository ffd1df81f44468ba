"""The write path: command queue, writer thread, loading and writing batches.

See docs/internals/writer.md.
"""
