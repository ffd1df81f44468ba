"""Request and response models, and responses as JSON text."""
