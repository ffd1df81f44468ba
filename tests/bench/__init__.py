"""The engine beside other systems, and the store beside the raw drivers, each in one run.

`python -m tests.bench --help` lists the options. No test asserts a time; `--check` does.
"""
