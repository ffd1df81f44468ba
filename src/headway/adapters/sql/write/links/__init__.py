"""The writer's connection to each kind of database."""
