"""Jobs and their parameters; submit runs, and watch, message and cancel them."""
