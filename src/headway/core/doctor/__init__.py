"""The doctor: checks that the contents of a database keep headway's promises."""
