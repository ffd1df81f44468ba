"""What commands print: tables, lines, screens."""
