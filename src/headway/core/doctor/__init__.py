"""The promises as checks of a database's contents: values in, findings out."""
