"""Compare the speed of this tree with that of an earlier commit."""
