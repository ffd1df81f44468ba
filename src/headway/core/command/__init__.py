"""What may be written. One file per subject: its fields, its answers, how it is decided."""
