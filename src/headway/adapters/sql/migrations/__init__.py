"""Forward-only, expand-only changes of the schema."""
