"""Output of commands: tables, lines, screens and logs."""
