"""Flow definitions: their parts, expressions, errors and warnings."""
