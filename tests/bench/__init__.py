"""The engine beside other systems, and the store beside the raw drivers, each in one run.

`python -m tests.bench --help` says what can be asked. No test asserts a time; `--check` does.
"""
