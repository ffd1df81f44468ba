"""Migrations of the schema. They only add and rename, and there are no downgrades."""
