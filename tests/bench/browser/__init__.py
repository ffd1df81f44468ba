"""The page in a real browser, while ten thousand runs change."""
