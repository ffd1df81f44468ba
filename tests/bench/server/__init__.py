"""headway over HTTP, beside the same framework that does nothing."""
