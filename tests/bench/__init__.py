"""Rates of the store beside those of the raw drivers, for the same rows in the same run.

`python -m tests.bench --help` says what can be asked. No test asserts a time; `--check` does.
"""
