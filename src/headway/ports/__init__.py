"""What the services need of the outside, as small Protocols whose docstrings are the contract."""
