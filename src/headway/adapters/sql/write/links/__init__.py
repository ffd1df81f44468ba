"""The writer's connection to each database."""
