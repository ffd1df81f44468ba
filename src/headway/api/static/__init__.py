"""Files that browsers fetch as they are."""
