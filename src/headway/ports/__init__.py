"""The interfaces that services need, as small Protocols whose docstrings are the contract."""
