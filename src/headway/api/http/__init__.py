"""HTTP below the routes: guard, bodies, cursors, errors."""
