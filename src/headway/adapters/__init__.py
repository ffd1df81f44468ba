"""One folder per outside thing; only the composition root names them."""
