"""HTTP without routes: guard, bodies, cursors, errors."""
