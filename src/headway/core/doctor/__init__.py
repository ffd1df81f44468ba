"""The promises, as checks of what is in a database: values in, findings out."""
