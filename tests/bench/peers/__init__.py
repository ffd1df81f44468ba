"""Other systems at the same work, each run by the interpreter of its own environment.

Each module carries out one order, as `tests.bench.engine.ours` does for headway. Nothing of headway
is imported here, and from the tests only modules that use nothing but the standard library.
"""
